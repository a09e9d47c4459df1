package gateway

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	// directFor is for how long callers follow an address before they ask again: half of it to one
	// and a half of it, so that callers which have asked at the same time do not do so again.
	directFor = 5 * time.Second
	// directRest is for how long calls go through the engine after a server could not be called
	// directly.
	directRest = 5 * time.Second
)

// A direct is the way to a server without the engine.
type direct struct {
	address string
	way     *way   // nil if there is none
	fromMs  uint64 // when it may be used again
}

// directly returns the way to the server without the engine, or nil if calls are to go through it.
// The way is there until release.
func (r *remote) directly() *way {
	if r.gateway.labels().direct == DirectOff {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gateway.clock.Ms() < r.direct.fromMs || len(r.places) == 0 || !isDirect(r.places[0].direct) {
		return nil
	}
	if address := r.places[0].direct; r.direct.way == nil || r.direct.address != address {
		if err := r.turnLocked(address); err != nil {
			r.gateway.log.Warn("a server cannot be called directly", "server", r.name, "address", address, "error", err)
			r.restLocked()
			return nil
		}
	}
	r.direct.way.calls++
	return r.direct.way
}

// release notes that a call by a way that directly has returned is over.
func (r *remote) release(by *way) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by.calls--
	by.closeIfLeftLocked()
}

// closeIfLeftLocked closes a way that is not used any more, once its calls have ended.
func (w *way) closeIfLeftLocked() {
	if w.left && w.calls == 0 {
		// Closing waits for connections to end, which the caller must not.
		go func() { _ = w.client.Close() }()
	}
}

// turnLocked makes another address the one for direct calls. Those that are under way go on.
func (r *remote) turnLocked(address string) error {
	files := r.gateway.config.DirectTLS
	var dialer net.Dialer
	made, err := r.newWay(address, func(ctx context.Context) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", strings.TrimPrefix(address, "tls:"))
	}, clienttls.With(clienttls.Files{Authorities: files.Authorities, Certificate: files.Certificate, Key: files.Key}))
	if err != nil {
		return err
	}
	if former := r.direct.way; former != nil {
		former.left = true
		former.closeIfLeftLocked()
	}
	r.direct = direct{address: address, way: made}
	return nil
}

func (r *remote) restLocked() {
	r.direct.fromMs = r.gateway.clock.Ms() + uint64(directRest.Milliseconds())
}

// isDirect reports whether an address that another gateway has announced may be called: one of TLS,
// and one only. What else it could say about a connection is for this gateway to decide.
func isDirect(address string) bool {
	at, secure := strings.CutPrefix(address, "tls:")
	if !secure || strings.ContainsAny(at, "?|, \t\r\n\x00") || len(address) > directBytesMax {
		return false
	}
	host, port, err := net.SplitHostPort(at)
	return err == nil && host != "" && port != ""
}

// leaves reports whether a call goes through the engine because it was not executed by the direct way,
// and not because of the function. Further calls go there as well, for a while.
func (r *remote) leaves(ctx context.Context, by *way, err error) bool {
	failure := status.FromError(err)
	if failure == nil {
		return false
	}
	switch failure.Code {
	case status.Unavailable, status.DeadlineExceeded, status.Unauthenticated, status.PermissionDenied, status.Unimplemented, status.Cancelled:
	default:
		return false
	}
	if ctx.Err() != nil || failure.Outcome != status.OutcomeNotExecuted && failure.Code != status.Unavailable {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.direct.way == by {
		r.restLocked()
	}
	return failure.Outcome == status.OutcomeNotExecuted
}

// elsewhere returns the options of a function that tell callers where to call it without the
// gateway: at the server of this machine, if there is one, or at a server of another one, if that is
// permitted.
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
	if r.gateway.labels().direct != DirectCallers {
		return ""
	}
	index, rests, found := r.set.Pick(r.gateway.clock.Ns(), chance{}, 0)
	if !found || rests || r.at[index].remote == nil {
		return ""
	}
	return r.at[index].remote.directAddress()
}

// directAddress returns the address at which this gateway calls the server without the engine, or "".
func (t *target) directAddress() string {
	if t.remote == nil || t.remote.gateway.labels().direct == DirectOff {
		return ""
	}
	return t.remote.directAddress()
}

// directAddress returns the address at which the server can be called without the engine, or "".
func (r *remote) directAddress() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gateway.clock.Ms() < r.direct.fromMs || len(r.places) == 0 || !isDirect(r.places[0].direct) {
		return ""
	}
	return r.places[0].direct
}

// takesCalls reports whether the server is there and has room.
func (e *exported) takesCalls() bool {
	e.mu.Lock()
	up := e.state == serverUp
	e.mu.Unlock()
	return up && !e.isFull()
}
