// Command testserver is the server that the tests of every language start; see
// package program.
package main

import "github.com/nearcall/nearcall/internal/testserver/program"

func main() { program.Main() }
