# Stands in for the binding where a test calls nothing through it.
package Nearcall;

1;
