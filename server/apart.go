package server

import (
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// runApart runs the request's function in a goroutine of its own.
func (c *connection) runApart(f *function, expiryNs uint64) {
	e := &execution{
		connection: c, id: c.frame.CallID, function: f, codec: c.frame.Codec,
		payload: append([]byte(nil), c.frame.Payload...),
		context: c.newContext(f, expiryNs),
	}
	if refusal := c.remember(e); refusal != nil {
		c.sendFailure(e.id, refusal)
		return
	}
	go e.runApart()
}

// remember counts a call against the limits and makes it cancellable.
func (c *connection) remember(e *execution) *status.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) >= c.server.config.callsMax {
		return refusedf(status.ResourceExhausted, "%d calls are in flight on this connection (limit calls_in_flight_max)", len(c.calls))
	}
	if calls := c.user.calls.Add(1); calls > int64(c.server.config.callsPerUser) {
		c.user.calls.Add(-1)
		return refusedf(status.ResourceExhausted, "%d calls of this user are in flight (limit calls_in_flight_per_user_max)", calls-1)
	}
	c.calls[e.id] = e
	c.running.Add(1)
	return nil
}

// forget makes a call that has ended uncancellable.
func (c *connection) forget(e *execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, e.id)
}

func (e *execution) runApart() {
	c := e.connection
	defer c.running.Done()
	defer c.user.calls.Add(-1)
	defer c.forget(e)
	switch err := e.enter(); {
	case err != nil:
		e.err = err
		c.answer(e)
	case e.function.maxRunTime > 0:
		e.runWithin()
	default:
		e.runAndLeave()
		c.answer(e)
	}
	c.out.flush()
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
	defer e.leave()
	started := time.Now()
	e.run(e.context)
	e.function.ran(time.Since(started), e.err != nil)
	e.cancel(context.Canceled)
}

// runWithin answers when the maximum run time is over even though the function
// goes on; its result is then dropped. A function that heeds its context gets a
// moment to return.
func (e *execution) runWithin() {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		e.runAndLeave()
	}()
	select {
	case <-finished:
	case <-e.context.Done():
		grace := time.NewTimer(wire.CancelGraceMs * time.Millisecond)
		defer grace.Stop()
		select {
		case <-finished:
		case <-grace.C:
			e.connection.sendFailure(e.id, status.Errorf(status.DeadlineExceeded,
				"%s was still running when its time was over", e.function.name).With(status.OutcomeUnknown))
			e.connection.out.flush()
			<-finished
			return
		}
	}
	e.connection.answer(e)
}
