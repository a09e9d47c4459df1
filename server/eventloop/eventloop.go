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

// New returns the engine. One may be given to any number of servers. While one
// serves, a listener has a goroutine and two descriptors more; those of netpoll
// itself, one goroutine and two descriptors for each 20 processors, stay for as long
// as the process lives.
func New() server.Engine { return eventloop.Engine{} }
