package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A placeQueue holds callers that wait because as many calls are in flight as the
// server allows, or because the server does not read. The first to come is the first to
// go. One place is offered at a time, and the caller that takes it offers the next one.
type placeQueue struct {
	waiting  []chan struct{}
	promised bool
}

// hasPlace reports whether a call may be added now. Preconditions: c.mu is held.
func (c *connection) hasPlace() bool {
	return len(c.places.waiting) == 0 && !c.places.promised && c.roomy()
}

func (c *connection) roomy() bool {
	return c.calls.used < c.callsMax && len(c.output.pending) < wire.PendingOutputBytesMax
}

// offerPlaces offers a place to the first caller that waits, if there is one.
// Preconditions: c.mu is held.
func (c *connection) offerPlaces() {
	if len(c.places.waiting) == 0 || c.places.promised || !c.roomy() {
		return
	}
	c.places.promised = true
	c.places.waiting[0] <- struct{}{}
	c.places.waiting = slices.Delete(c.places.waiting, 0, 1)
}

// waitForPlace waits for a place until the call's deadline. c.mu is held before and
// after, and released while it waits.
func (c *connection) waitForPlace(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	place := make(chan struct{}, 1)
	c.places.waiting = append(c.places.waiting, place)
	c.mu.Unlock()
	if r.observed != nil {
		r.observeQueue(ctx)
	}
	timer := c.client.timer(r.deadlineNs)
	defer timer.Stop()
	promised := false
	select {
	case <-place:
		promised, usable = true, true
	case <-c.left:
	case <-ctx.Done():
		failure, usable = c.noPlace(ctx), true
	case <-timer.C:
		failure, usable = c.noPlace(ctx), true
	}
	c.mu.Lock()
	c.leaveQueue(place, promised)
	if usable && failure == nil {
		r.header.Deadline = c.deadlineField(r)
	}
	return failure, usable
}

// leaveQueue takes a caller out of the queue. A place that was offered to it at the
// last moment goes to the next one.
func (c *connection) leaveQueue(place chan struct{}, promised bool) {
	i := slices.Index(c.places.waiting, place)
	switch {
	case promised:
		c.places.promised = false
	case i >= 0:
		c.places.waiting = slices.Delete(c.places.waiting, i, i+1)
	default:
		c.places.promised = false
		c.offerPlaces()
	}
}

// errNoPlace is why a call goes to another endpoint instead of waiting.
var errNoPlace = errors.New("no place for the call")

// full is the failure of a call that does not wait for a place.
func (c *connection) full() *status.Error {
	failure := notExecuted(status.ResourceExhausted, "%w at %s", errNoPlace, c.endpoint.address)
	failure.Cause = errNoPlace
	return failure
}

func (c *connection) noPlace(ctx context.Context) *status.Error {
	failure := endOfWaiting(ctx, "while waiting to send: the server has calls_in_flight_max calls, or does not read")
	return failure.With(status.OutcomeNotExecuted)
}

// timer returns a timer for a deadline. Without a deadline the timer never fires.
func (c *core) timer(deadlineNs uint64) *time.Timer { return time.NewTimer(c.remaining(deadlineNs)) }
