// Command testserver is the server that the tests of every language start; see
// package program.
package main

import "github.com/nearcall/nearcall/tests/programs/testserver/program"

func main() { program.Main() }
