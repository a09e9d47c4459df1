// Package eventloop lets a server wait for input on thousands of mostly idle
// connections without a goroutine for each of them:
//
//	s, err := server.New(server.WithEngine(eventloop.New()))
//
// For functions and for callers nothing else changes. The guide
// docs/guides/event-loop.md says when it is worth using.
//
// It is a module of its own, because it needs cloudwego/netpoll. It works on Linux
// only.
package eventloop

import (
	"github.com/nearcall/nearcall/internal/transport/eventloop"
	"github.com/nearcall/nearcall/server"
)

// New returns the engine. It may be given to any number of servers. While a listener is
// served, the engine takes one goroutine and two descriptors for every 20 processors.
// netpoll itself takes as many again, and keeps them for as long as the process lives.
// Child processes do not inherit any of them if the process may read /proc/self/fd and
// /proc/self/fdinfo.
//
// netpoll exists once in a process. A program that configures it must do so in a
// function init. If the number of its pollers is lowered later, connections lose
// theirs, and Serve returns an error.
func New() server.Engine { return eventloop.Engine{} }
