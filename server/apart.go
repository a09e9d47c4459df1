package server

import (
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// limitDetail is the type of a detail that names the limit which refused a call.
const limitDetail = "nearcall.limit"

// runApart runs the request's function in a goroutine of its own; held: when there is room
// for its reply. Others of the connection go on meanwhile.
func (c *connection) runApart(f *function, expiryNs uint64, held bool) {
	e := &execution{
		server: c.server, connection: c, id: c.frame.CallID, function: f, codec: c.frame.Codec,
		context: c.newContext(f, expiryNs), marks: c.marks, held: held,
	}
	if !e.copyPayload(c.frame.Payload) {
		c.sendFailure(e.id, c.user.input.refusal(int64(len(c.frame.Payload))))
		return
	}
	if refusal := c.remember(e); refusal != nil {
		e.uncount()
		c.sendFailure(e.id, refusal)
		return
	}
	e.takeDescriptors()
	go e.runApart()
}

// remember counts a call against the limits and makes it cancellable.
func (c *connection) remember(e *execution) *status.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return refusedf(status.Cancelled, "the connection is closed")
	}
	if len(c.calls) >= c.server.config.callsInFlightMax {
		return crowdedf("calls_in_flight_max", "%d calls are in flight on this connection (limit calls_in_flight_max); the server's option WithCallsInFlight raises it to at most %d", len(c.calls), wire.CallsInFlightMaxCeiling)
	}
	if calls := c.user.calls.Add(1); calls > int64(c.server.config.callsInFlightPerUserMax) {
		c.user.calls.Add(-1)
		return crowdedf("calls_in_flight_per_user_max", "%d calls of this user are in flight (limit calls_in_flight_per_user_max); the server's option WithCallsInFlight raises it to at most %d", calls-1, wire.CallsInFlightPerUserMaxCeiling)
	}
	c.calls[e.id] = e
	c.running.Add(1)
	e.marks.Set(e.id, sharedmemory.StageReceived)
	return nil
}

// crowdedf refuses a call that there will be room for once others have ended. The
// detail tells callers' libraries that can wait so.
func crowdedf(limit, format string, args ...any) *status.Error {
	refusal := refusedf(status.ResourceExhausted, format, args...)
	refusal.Details = []status.Detail{{Type: limitDetail, Value: limit}}
	return refusal
}

// adopt counts a call that began in the reader and is no longer the reader's.
// Preconditions: mu is held.
func (c *connection) adopt(e *execution) {
	c.user.calls.Add(1)
	c.calls[e.id] = e
}

// forget takes back what remember or adopt counted. For a call that ends in
// time this is just before its answer can be seen, so that a caller that
// counts its calls is never refused.
func (c *connection) forget(e *execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, e.id)
	c.user.calls.Add(-1)
	e.uncount()
}

// remind takes a forget back whose answer was not sent after all.
func (c *connection) remind(e *execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adopt(e)
}

func (e *execution) runApart() {
	c := e.connection
	defer c.running.Done()
	defer e.files.Close()
	if e.held {
		e.err = e.holdBack()
	}
	if e.err == nil {
		e.err = e.enter()
	}
	if e.err != nil {
		e.answerApart()
		return
	}
	if e.function.maxRunTime > 0 {
		e.runBounded()
		return
	}
	// The function may end this goroutine.
	defer e.answerApart()
	defer e.cancel(context.Canceled)
	e.runAndLeave()
}

func (e *execution) answerApart() {
	c := e.connection
	c.answer(e, func() { c.forget(e) })
	c.out.flush()
}

// runBounded runs a function that has entered and whose run time is limited.
func (e *execution) runBounded() {
	c := e.connection
	e.context.shorten(time.Now().Add(e.function.maxRunTime))
	late := e.runWithin()
	if late == nil {
		e.answerApart()
		return
	}
	c.sendFailure(e.id, e.overdue())
	c.out.flush()
	<-late
	c.forget(e)
}

// enter waits for a place if the function's concurrency is limited. An error
// means that the function will not start.
func (e *execution) enter() error {
	slots := e.function.slots
	if slots != nil {
		select {
		case slots <- struct{}{}:
		case <-e.context.Done():
			return notStarted(e.context.Err())
		}
	}
	if err := e.context.Err(); err != nil {
		e.leave()
		return notStarted(err)
	}
	return nil
}

func (e *execution) leave() {
	if e.function.slots != nil {
		<-e.function.slots
	}
}

func notStarted(reason error) error {
	if errors.Is(reason, context.DeadlineExceeded) {
		return refusedf(status.DeadlineExceeded, "the deadline passed while the call waited for its turn")
	}
	return refusedf(status.Cancelled, "cancelled before it started")
}

func (e *execution) runAndLeave() {
	started := time.Now()
	defer func() {
		e.function.ran(time.Since(started), e.err != nil)
		e.leave()
	}()
	e.start(e.context)
}

// runWithin runs the function until its context ends, even though it may go on;
// its result is then dropped. A function that heeds its context gets a moment
// to return. late is nil when it returned in time, and is closed when it returns
// otherwise. The context of one that returned is ended here only, by who has seen that it did:
// on a busy machine a goroutine can stand still right behind its function.
func (e *execution) runWithin() (late <-chan struct{}) {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		e.runAndLeave()
	}()
	select {
	case <-finished:
		e.cancel(context.Canceled)
		return nil
	case <-e.context.Done():
	}
	grace := time.NewTimer(wire.CancelGraceMs * time.Millisecond)
	defer grace.Stop()
	select {
	case <-finished:
		return nil
	case <-grace.C:
		return finished
	}
}

// overdue makes the error for a call whose context ended before its function
// returned.
func (e *execution) overdue() *status.Error {
	if errors.Is(e.context.Err(), context.Canceled) {
		return status.Errorf(status.Cancelled, "%s was cancelled and is still running", e.function.name).With(status.OutcomeUnknown)
	}
	return status.Errorf(status.DeadlineExceeded, "%s was still running when its time was over", e.function.name).With(status.OutcomeUnknown)
}
