package server

import (
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// limitDetail is the type of the error detail that names the limit by which a call was
// refused.
const limitDetail = "nearcall.limit"

// runApart runs the request's function in a goroutine of its own, so that other calls
// of the connection go on meanwhile. If held is set, the function must not start before
// there is room for its reply.
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

// remember enters a call into the table of the connection, so that it counts against
// the limits and can be cancelled.
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

// crowdedf returns the error for a call for which there will be room once other calls
// have ended. Its detail tells callers' libraries that can wait to do so.
func crowdedf(limit, format string, args ...any) *status.Error {
	refusal := refusedf(status.ResourceExhausted, format, args...)
	refusal.Details = []status.Detail{{Type: limitDetail, Value: limit}}
	return refusal
}

// adopt enters a call into the table that began in the reader and no longer belongs to
// it. Preconditions: mu is held.
func (c *connection) adopt(e *execution) {
	c.user.calls.Add(1)
	c.calls[e.id] = e
}

// forget removes a call that remember or adopt entered. For a call that ends in time
// this happens just before its answer becomes visible, so that a caller that counts its
// own calls is never refused.
func (c *connection) forget(e *execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, e.id)
	c.user.calls.Add(-1)
	e.uncount()
}

// remind enters a call again that forget has removed, because its answer could not be
// sent after all.
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
	// This is deferred because the function may end this goroutine.
	defer e.answerApart()
	defer e.cancel(context.Canceled)
	e.runAndLeave()
}

func (e *execution) answerApart() {
	c := e.connection
	c.answer(e, func() { c.forget(e) })
	c.out.flush()
}

// runBounded runs a function with a limited run time. The call has already entered.
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

// enter waits for a place if the concurrency of the function is limited. After an error
// the function will not start.
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

// runWithin runs the function until its context ends. When that happens, the function
// gets a moment to return; after that it may go on, but its result is dropped. late is
// nil if the function has returned in time. Otherwise late is closed when it does
// return. If the function returned first, its context is ended here, by the goroutine
// that has seen it return: on a busy machine the goroutine of the function may not run
// again for a while.
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

// overdue returns the error for a call whose context has ended before its function
// returned.
func (e *execution) overdue() *status.Error {
	if errors.Is(e.context.Err(), context.Canceled) {
		return status.Errorf(status.Cancelled, "%s was cancelled and is still running", e.function.name).With(status.OutcomeUnknown)
	}
	return status.Errorf(status.DeadlineExceeded, "%s was still running when its time was over", e.function.name).With(status.OutcomeUnknown)
}
