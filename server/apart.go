package server

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// runApart runs the request's function in a goroutine of its own, so that other calls
// of the connection go on meanwhile. If held is set, the function must not start before
// there is room for its reply.
func (r *reader) runApart(f *function, expiryNs uint64, held bool) {
	c := r.connection
	e := &execution{
		server: c.server, connection: c, id: r.frame.CallID, function: f, codec: r.frame.Codec,
		context: r.newContext(f, expiryNs), marks: r.marks, held: held, gathers: true, stored: r.stored,
		byName: r.frame.FunctionID == 0,
	}
	if f.forward != nil {
		e.forwarded = r.toForward(f)
	}
	if !r.givePayload(e) {
		r.refuse(f, c.user.input.refusal(int64(len(r.frame.Payload))))
		return
	}
	if refusal := c.calls.remember(e); refusal != nil {
		e.uncount()
		r.refuse(f, refusal)
		return
	}
	e.files, r.stored = r.takeDescriptors(f), nil
	if c.server.config.observer != nil {
		e.observeBegin(c.observed.Load())
	}
	if f.forward != nil {
		c.server.passers.run(e)
		return
	}
	go e.runApart()
}

func (e *execution) runApart() {
	c := e.connection
	defer c.calls.running.Done()
	defer e.files.Close()
	// The result may lie where the payload does.
	defer e.stored.release()
	e.err = e.fetchStored()
	if e.err == nil && e.held {
		if e.observed != nil {
			e.observeQueue()
		}
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
	c.answer(e, func() { c.calls.forget(e) })
	c.output.flush()
}

// runBounded runs a function with a limited run time. The call has already entered.
func (e *execution) runBounded() {
	c := e.connection
	e.context.shorten(e.function.maxRunTime)
	late := e.runWithin()
	if late == nil {
		e.answerApart()
		return
	}
	overdue := e.overdue()
	c.sendFailure(e.id, overdue)
	c.output.flush()
	if e.observed != nil {
		e.observeEnd(overdue, 0)
	}
	<-late
	c.calls.forget(e)
}

// enter waits for a place if the concurrency of the function is limited. After an error
// the function will not start.
func (e *execution) enter() error {
	if e.function.slots != nil {
		if err := e.awaitSlot(); err != nil {
			return err
		}
	}
	if err := e.context.Err(); err != nil {
		e.leave()
		return e.connection.notStarted(err)
	}
	if e.observed != nil {
		e.observeStart()
	}
	return nil
}

// awaitSlot takes one of the places of the function, and waits for it if there is none.
func (e *execution) awaitSlot() error {
	select {
	case e.function.slots <- struct{}{}:
		return nil
	default:
	}
	if e.observed != nil {
		e.observeQueue()
	}
	select {
	case e.function.slots <- struct{}{}:
		return nil
	case <-e.context.Done():
		return e.connection.notStarted(e.context.Err())
	}
}

func (e *execution) leave() {
	if e.function.slots != nil {
		<-e.function.slots
	}
}

// notStarted says why a call whose context has ended was not started. The context ends with the
// connection too, which is no wish of the caller's: such a call may be made again.
func (c *connection) notStarted(reason error) error {
	if errors.Is(reason, context.DeadlineExceeded) {
		return refusedf(status.DeadlineExceeded, "the deadline passed while the call waited for its turn")
	}
	if c.gate.Load() {
		return refusedf(status.Unavailable, "the connection ended before the call started")
	}
	return refusedf(status.Cancelled, "cancelled before it started")
}

func (e *execution) runAndLeave() {
	started := time.Now()
	defer func() {
		e.function.ran(time.Since(started), e.err != nil)
		e.leave()
	}()
	if e.stored != nil {
		// Memory that the caller writes may be missing when the machine has no more.
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	}
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
	if !returnsWithin(e.context, finished) {
		return finished
	}
	e.cancel(context.Canceled)
	return nil
}

// returnsWithin waits for a function until the context ends, and a moment longer. It
// reports whether the function has returned in time.
func returnsWithin(ctx context.Context, finished <-chan struct{}) bool {
	select {
	case <-finished:
		return true
	case <-ctx.Done():
	}
	grace := time.NewTimer(wire.CancelGraceMs * time.Millisecond)
	defer grace.Stop()
	select {
	case <-finished:
		return true
	case <-grace.C:
		return false
	}
}

// overdue returns the error for a call whose context has ended before its function
// returned.
func (e *execution) overdue() *status.Error { return e.overdueIn(e.context) }

// overdueIn is overdue with another context than that of the function.
func (e *execution) overdueIn(ctx context.Context) *status.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return status.Errorf(status.Cancelled, "%s was cancelled and is still running", e.function.name).With(status.OutcomeUnknown)
	}
	return status.Errorf(status.DeadlineExceeded, "%s was still running when its time was over", e.function.name).With(status.OutcomeUnknown)
}
