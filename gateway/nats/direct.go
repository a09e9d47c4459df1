package gateway

import (
	"math/rand/v2"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
)

// directFor is for how long callers follow an address before they ask again: half of it to one and a
// half of it, so that callers which have asked at the same time do not do so again.
const directFor = 5 * time.Second

// elsewhere returns the options of a function that tell callers where to call it without the
// gateway: at the server of this machine, if there is one.
func (g *Gateway) elsewhere(known *imported) []server.FunctionOption {
	return []server.FunctionOption{server.Elsewhere(func(intercept.Peer) (string, time.Duration) {
		return known.route.direct(), directFor/2 + rand.N(directFor)
	})}
}

// direct returns the address at which callers can call the function directly, or "".
func (r *route) direct() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.at {
		if t != nil && t.local != nil && t.local.takesCalls() {
			return "unix:" + socketPath(t.local.config.Address)
		}
	}
	return ""
}

// takesCalls reports whether the server is there and has room.
func (e *exported) takesCalls() bool {
	e.mu.Lock()
	up := e.state == serverUp
	e.mu.Unlock()
	return up && !e.isFull()
}
