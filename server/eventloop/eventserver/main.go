// Command eventserver is testserver with the event loop: the same functions, flags
// and output, for the same tests and measurements.
package main

import (
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/eventloop"
	"github.com/nearcall/nearcall/tests/programs/testserver/program"
)

func main() { program.Main(server.WithEngine(eventloop.New())) }
