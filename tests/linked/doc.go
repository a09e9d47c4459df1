// Package linked has the test that shows what programs pay for: TLS and message buses are
// only in those programs that import them.
package linked
