// Package eventloop lets a server wait for thousands of mostly idle connections
// without a goroutine for each of them:
//
//	s := server.New(server.WithEngine(eventloop.New()))
//
// Everything else is as without it, for functions and for callers. The guide
// docs/guides/event-loop.md says when that is worth it.
//
// It is a module of its own, because it needs cloudwego/netpoll. Linux only.
package eventloop

import (
	"github.com/nearcall/nearcall/internal/transport/eventloop"
	"github.com/nearcall/nearcall/server"
)

// New returns the engine. One may be given to any number of servers. While a listener
// is served there are a goroutine and two descriptors more for each 20 processors; those
// of netpoll itself, as many again, stay for as long as the process lives. Children inherit
// none of them where the process may read /proc/self/fd and /proc/self/fdinfo.
//
// netpoll is one for the process: a program that configures it does so in a function
// init. To lower the number of its pollers later takes them away from connections, and
// Serve then returns an error.
func New() server.Engine { return eventloop.Engine{} }
