package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/endpoints"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A Direct says whether calls go where a server directs them.
type Direct uint8

const (
	// DirectLocal follows directions of servers on this machine to local sockets.
	DirectLocal Direct = iota
	// DirectOff follows none.
	DirectOff
	// DirectAny also follows directions to tls: addresses, of servers on this machine and of
	// those that are called over TLS.
	DirectAny
)

// WithDirect says whether calls go where a server directs them. A server that passes the calls of a
// function on, such as a gateway, may tell its callers where they can call the function directly. The
// default is DirectLocal.
//
// A direction is a hint. If a call cannot be made there and was not executed, it is made by the
// client's own address. The user that a local server runs as is checked (WithAnyServerUser), and
// certificates are checked by what this client trusts. A client with WithDialer follows no directions.
func WithDirect(direct Direct) Option {
	return func(c *config) { c.direct = direct }
}

const (
	// directedMax bounds the functions whose directions are kept. A program that has more calls
	// the others by its address.
	directedMax = 1024
	// directionLeast is how often a server is asked again at most, however soon it wants that.
	directionLeast = wire.EndpointRestFirstMs * time.Millisecond
	// directionGrace is for how long calls follow a former direction while the server is asked for
	// the next one.
	directionGrace = wire.EndpointReturnMs * time.Millisecond
)

// The directions are what servers have told of places where functions can be called directly.
type directions struct {
	// told has the endpoints at these places.
	told *route
	// places are the same endpoints, the one that was told last first. The lock of told guards it.
	places []*endpoint
	// all are by the names of functions. The map is replaced and never changed, under the lock of
	// told; nil stands for none.
	all atomic.Pointer[map[string]*direction]
}

// A direction is about one function.
type direction struct {
	name string
	// latest is what was told last; nil stands for nothing.
	latest atomic.Pointer[toldPlace]
	// avoidedUntilNs is until when calls do not go there, because the server there refused one in a
	// way that will not pass soon.
	avoidedUntilNs atomic.Uint64
	// askAfterNs is when a call may have the server asked again.
	askAfterNs atomic.Uint64
}

// A toldPlace never changes. At is nil if calls are to stay with the server that was asked until then.
type toldPlace struct {
	at      *endpoint
	untilNs uint64
}

func newDirections(c *core) *directions {
	return &directions{told: &route{client: c, set: endpoints.New(endpointLimits), optional: true}}
}

// of returns what was told of the function that a call is about, or nil.
func (t *directions) of(r *call) *direction {
	if t == nil || r.frameType != wire.Request {
		return nil
	}
	all := t.all.Load()
	if all == nil {
		return nil
	}
	return (*all)[r.name]
}

// follow makes the call where a direction says. Ended is false if the call is to be made by the
// address of the client; the failure then says why it was not made there, or is nil if that was not
// tried. nowNs is when this attempt begins.
func (t *directions) follow(ctx context.Context, r *call, d *direction, nowNs uint64) (failure *status.Error, ended bool) {
	place := d.latest.Load()
	if place == nil {
		return nil, false
	}
	if nowNs >= place.untilNs && !t.renew(d, place, nowNs) {
		return nil, false
	}
	if place.at == nil || nowNs < d.avoidedUntilNs.Load() || nowNs < place.at.fullUntilNs.Load() {
		return nil, false
	}
	for {
		current, failure := t.connect(ctx, r, place.at)
		if current == nil {
			return failure, failure != nil && !t.comesBack(ctx, r, d, place.at, failure)
		}
		r.at, r.spills = place.at, true
		failure, usable := current.try(ctx, r)
		switch {
		case !usable: // the connection was left
		case failure == nil:
			return nil, true
		default:
			return failure, !t.comesBack(ctx, r, d, place.at, failure)
		}
	}
}

// comesBack reports whether a call that was not made where a direction says is made by the address
// of the client. A direction must not make a call fail that would otherwise succeed.
func (t *directions) comesBack(ctx context.Context, r *call, d *direction, at *endpoint, failure *status.Error) bool {
	client := t.told.client
	if failure.Outcome != status.OutcomeNotExecuted || ctx.Err() != nil || client.remaining(r.deadlineNs) == 0 || errors.Is(failure, ErrClosed) {
		return false
	}
	nowNs := client.clock.Ns()
	switch failure.Code {
	case status.DeadlineExceeded, status.Cancelled:
		return false
	case status.Aborted:
		r.outdated(failure)
		d.avoidedUntilNs.Store(nowNs + absentNs)
	case status.Unimplemented, status.PermissionDenied, status.Unauthenticated:
		d.avoidedUntilNs.Store(nowNs + absentNs)
	default:
		if isForWantOfRoom(failure) && !errors.Is(failure, errNoPlace) {
			at.fullUntilNs.Store(nowNs + endpointLimits.Full)
		}
	}
	r.metadata, r.at, r.spills = nil, nil, false
	return true
}

// connect returns a connection to a place, or nothing if it is left alone. The failure says why there
// is none, if that was tried.
func (t *directions) connect(ctx context.Context, r *call, at *endpoint) (*connection, *status.Error) {
	if current := at.current.Load(); current != nil {
		return current, nil
	}
	t.told.mu.Lock()
	nowNs := t.told.client.clock.Ns()
	usable := t.told.at[at.index] == at && t.told.set.Take(at.index, nowNs)
	index, probed := t.told.set.Probe(nowNs, 0)
	due := t.told.at[index]
	t.told.mu.Unlock()
	if probed {
		due.begin()
	}
	if !usable {
		return nil, nil
	}
	s := search{}
	made, failure, _ := t.told.connect(ctx, r, at, &s)
	if made == nil && failure == nil && len(s.failures) > 0 {
		failure = s.failures[0].failure
	}
	return made, failure
}

// renew has the server asked again, beside calls, because the time of a direction has passed. It
// reports whether the direction may still be followed meanwhile.
func (t *directions) renew(d *direction, former *toldPlace, nowNs uint64) bool {
	if due := d.askAfterNs.Load(); nowNs >= due && d.askAfterNs.CompareAndSwap(due, nowNs+uint64(directionGrace)) {
		go t.ask(d, former, nowNs)
	}
	return nowNs < former.untilNs+uint64(directionGrace)
}

// ask asks for the function, by the address of the client. The answer's direction has been noted when
// it has come; without one there is none any more. That may be for a while only, such as while the
// server has nobody to whom it passes calls on. No call may have a reason to ask, because calls go by
// the id that the function has, so the server is asked again after a while.
func (t *directions) ask(d *direction, former *toldPlace, nowNs uint64) {
	c := t.told.client
	q := c.take()
	defer c.give(q)
	q.frameType, q.codec, q.name, q.payload = wire.Resolve, wire.CodecRaw, d.name, []byte(d.name)
	q.startNs, q.deadlineNs = nowNs, nowNs+uint64(directionGrace)
	failure := c.attemptHere(c.life, q, 1)
	if failure == nil || failure.Code == status.Unimplemented {
		d.latest.CompareAndSwap(former, &toldPlace{untilNs: c.clock.Ns() + absentNs})
	}
	c.log.Debug("asked where a function can be called directly", "function", d.name, "failure", asError(failure))
}

// note notes what a server has told with its answer to a call. The goroutine that reads calls it,
// before the call ends.
func (t *directions) note(c *connection, name string, extensions []byte) {
	said, found := wire.FindDirection(extensions)
	if !found {
		return
	}
	t.told.mu.Lock()
	nowNs := t.told.client.clock.Ns()
	if d := t.directionLocked(name, said.Valid > 0); d != nil {
		d.noteLocked(t.placeLocked(c, said.Address, nowNs), said.Valid, nowNs)
	}
	retired := slices.Clone(t.told.retired)
	t.told.mu.Unlock()
	if len(retired) > 0 {
		// This goroutine may be the one that reads for a connection that is closed by it.
		go t.told.closeRetired(retired)
	}
}

func (d *direction) noteLocked(at *endpoint, valid time.Duration, nowNs uint64) {
	if valid == 0 {
		d.latest.Store(nil)
		return
	}
	if former := d.latest.Load(); former == nil || former.at != at {
		d.avoidedUntilNs.Store(0)
	}
	d.latest.Store(&toldPlace{at: at, untilNs: nowNs + uint64(max(valid, directionLeast))})
	d.askAfterNs.Store(0)
}

// directionLocked returns what is kept of a function. If that is nothing and there is room, it makes
// a direction of which nothing is known yet, if it is to.
func (t *directions) directionLocked(name string, makes bool) *direction {
	known := map[string]*direction{}
	if all := t.all.Load(); all != nil {
		known = *all
	}
	if d := known[name]; d != nil || !makes || len(known) >= directedMax {
		return d
	}
	d, more := &direction{name: name}, maps.Clone(known)
	more[name] = d
	t.all.Store(&more)
	return d
}

// placeLocked returns the endpoint at an address that a server has told, or nil if calls are not to go
// there.
func (t *directions) placeLocked(c *connection, text string, nowNs uint64) *endpoint {
	if text == "" {
		return nil
	}
	parsed, err := address.Parse(text, false)
	if err != nil || !t.follows(c, parsed) {
		t.told.client.log.Debug("a direction is not followed", "address", text, "told_by", c.endpoint.address, "error", err)
		return nil
	}
	at := t.told.client.config.toldBy(parsed, c.endpoint.address)
	known := slices.IndexFunc(t.places, func(e *endpoint) bool { return e.address == at })
	var e *endpoint
	switch {
	case known >= 0:
		e = t.places[known]
		t.places = slices.Delete(t.places, known, known+1)
	case !t.makeRoomLocked(nowNs):
		return nil
	default:
		e = t.told.addLocked(at, 0)
	}
	t.places = slices.Insert(t.places, 0, e)
	return e
}

// toldBy returns the address that a server has told as this client uses it.
func (c *config) toldBy(a, teller address.Address) address.Address {
	at := a.ToldBy(teller)
	switch {
	case at.Network != "tls":
	case c.silence != 0:
		at.Silence = c.silence
	case at.Silence == 0:
		at.Silence = wire.TcpSilenceMs * time.Millisecond // calls come back
	}
	return at
}

// follows reports whether calls may go to an address that a server has told. A path means something
// only on the machine of that server, and what was told over TCP anybody may have written.
func (t *directions) follows(c *connection, a address.Address) bool {
	config := &t.told.client.config
	switch a.Network {
	case "unix":
		return c.isHere()
	case "tls":
		return config.direct == DirectAny && config.secure != nil && (c.isHere() || c.secure)
	}
	return false
}

// isHere reports whether the server is on this machine for certain. A local socket may be the end of
// a tunnel, but the clock of another machine shows another time.
func (c *connection) isHere() bool { return c.local && c.sharedClock() && c.clockAheadNs == 0 }

// makeRoomLocked makes room for another endpoint. It reports false if functions are called at all of
// those that there are.
func (t *directions) makeRoomLocked(nowNs uint64) bool {
	if len(t.places) < wire.DirectionsMax {
		return true
	}
	inUse := map[*endpoint]bool{}
	for _, d := range *t.all.Load() {
		if place := d.latest.Load(); place != nil && nowNs < place.untilNs+uint64(directionGrace) {
			inUse[place.at] = true
		}
	}
	for i, e := range slices.Backward(t.places) {
		if !inUse[e] {
			t.told.removeLocked(e)
			t.places = slices.Delete(t.places, i, i+1)
			return true
		}
	}
	return false
}
