package client

import (
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

// An endpoint is one place where a server listens, with the connection to it that new calls
// use.
type endpoint struct {
	client    *core
	address   address.Address
	transport transport.Transport

	// current is the connection that new calls use, or nil if there is none.
	current atomic.Pointer[connection]
	// opening is the attempt to connect that is under way, or nil; core.mu guards it.
	opening *opening

	// fullUntilNs is until when calls do not follow a direction to the endpoint, because it had no room.
	fullUntilNs atomic.Uint64

	// The rest is set only if a route chooses among several endpoints, or has those to which servers
	// direct calls. index is the
	// endpoint's place in the route. name is the host name for which the endpoint stands, or
	// of which it is an answer. failures counts what went wrong, and lastFailure says what did
	// last, or is empty if that is over; the lock of the route guards both.
	route       *route
	index       int
	name        *hostName
	failures    uint64
	lastFailure string
}

// init makes an endpoint of an address. The zero endpoint is not usable.
func (e *endpoint) init(c *core, at address.Address) {
	e.client, e.address, e.transport = c, at, transportOf(at, c.config.secure)
}

func transportOf(a address.Address, secure Secure) transport.Transport {
	switch a.Network {
	case "tcp":
		return tcp.Transport{Silence: a.Silence}
	case "tls":
		return secure
	}
	return unixsocket.Transport{}
}

// local reports whether connecting takes no time that matters.
func (e *endpoint) local() bool { return e.address.Network == "unix" }

// detach makes the next call open another connection.
func (e *endpoint) detach(gone *connection) {
	e.current.CompareAndSwap(gone, nil)
	if e.route != nil {
		e.route.direct.CompareAndSwap(gone, nil)
	}
}
