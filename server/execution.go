package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// An execution is one run of a function: what goes in and what comes out. The
// reader uses one over and over; calls that run apart have one each.
//
// A function may end its goroutine (runtime.Goexit, t.FailNow). That is answered
// like a panic, by who is there then: for calls that run apart deferred functions, for
// a reader's the goroutine that takes its place.
type execution struct {
	server     *Server
	connection *connection // nil for a call within the process
	id         uint64
	function   *function
	codec      wire.Codec
	payload    []byte
	counted    int64        // bytes of what the payload lies in, in the user's share
	context    *callContext // nil when nobody can ask for it
	marks      *sharedmemory.Marks
	files      *descriptors.Table // nil where the function passes none
	held       bool               // until there is room for the reply

	// Of a call that the reader runs. goOn replaces a reader that the function ends.
	goOn      func(*execution)
	mark      uint64 // of its role
	startedNs uint64
	untimed   bool

	called    bool  // the function was called
	callError error // what it returned
	result    []byte
	scratch   []byte // where typed results are encoded
	reserved  int64  // what of it is counted, in the user's share
	err       error  // nil or a *status.Error with its outcome
}

// start runs the function and marks how far it came. It does not run one whose
// connection was closed: its caller has been told by the mark.
func (e *execution) start(ctx context.Context) {
	if e.marks == nil {
		e.run(ctx)
		return
	}
	e.marks.Set(e.id, sharedmemory.StageStarted)
	if e.connection.gate.Load() {
		e.called = false
		e.err = notStarted(context.Canceled)
	} else {
		e.run(ctx)
	}
	e.markEnd()
}

// markEnd marks that the call is over.
func (e *execution) markEnd() {
	switch {
	case e.marks == nil:
	case e.called:
		e.marks.Set(e.id, sharedmemory.StageFinished)
	default:
		e.marks.Set(e.id, sharedmemory.StageReceived)
	}
}

// run runs the function inside the interceptors and turns a panic into an
// error. It fills in result and err.
func (e *execution) run(ctx context.Context) {
	returned := false
	defer func() {
		cause := recover()
		switch {
		case cause != nil:
			e.err = e.recovered(fmt.Sprint(cause), "panicked")
		case !returned:
			e.err = e.recovered("", "ended its goroutine (runtime.Goexit)")
			e.markEnd()
			if e.goOn != nil {
				go e.goOn(e)
			}
		}
	}()
	e.called, e.callError = false, nil
	if len(e.server.config.interceptors) > 0 {
		e.err = e.settle(e.intercept(ctx, 0))
	} else {
		e.err = withOutcome(e.call(ctx))
	}
	returned = true
}

func (e *execution) call(ctx context.Context) (err error) {
	e.called = true
	if e.codec == wire.CodecRaw && e.function.raw != nil {
		e.result, err = e.function.raw(ctx, e.payload)
		return err
	}
	e.result, err = e.function.CallWith(ctx, e.files, e.codec, e.payload, e.scratch[:0])
	if cap(e.result) > cap(e.scratch) {
		e.keepScratch()
	}
	return err
}

func (e *execution) intercept(ctx context.Context, index int) error {
	interceptors := e.server.config.interceptors
	if index == len(interceptors) {
		if e.called {
			return status.Errorf(status.Internal, "an interceptor called %s more than once", e.function.name)
		}
		e.callError = withOutcome(e.call(ctx))
		return e.callError
	}
	return interceptors[index](ctx, e.context.theCall(), func(ctx context.Context) error {
		return e.intercept(ctx, index+1)
	})
}

// settle makes the error that interceptors returned one that can be sent. Only
// what happened here says whether the function ran, whatever other calls the
// interceptors made. A call without a result cannot be made a success.
func (e *execution) settle(err error) error {
	switch {
	case err == nil && e.callError != nil:
		return e.callError
	case err == nil && !e.called:
		err = status.Errorf(status.Internal, "an interceptor of %s neither called it nor said why", e.function.name)
	case err == nil:
		return nil
	}
	failure := *status.FromError(withOutcome(err))
	switch {
	case !e.called:
		failure.Outcome = status.OutcomeNotExecuted
	case e.callError != nil:
		failure.Outcome = status.FromError(e.callError).Outcome
	default:
		failure.Outcome = status.OutcomeExecuted
	}
	return &failure
}

// cancel ends the context of the call.
func (e *execution) cancel(reason error) {
	if e.context != nil {
		e.context.end(reason)
	}
}

// recovered logs what the function did instead of returning, and makes the error
// that says so.
func (e *execution) recovered(cause, did string) error {
	e.server.config.logger.Error("function "+did,
		"function", e.function.name, "panic", cause, "stack", string(debug.Stack()))
	outcome := status.OutcomeExecuted
	if !e.called {
		outcome = status.OutcomeNotExecuted // an interceptor panicked before it
	}
	return &status.Error{
		Code: status.Internal, Outcome: outcome,
		Message: fmt.Sprintf("function %s %s; the server's log has the stack", e.function.name, did),
		Cause:   errors.New("panic"),
	}
}

// withOutcome makes err one that can be sent: a function's own error means
// that it was executed.
func withOutcome(err error) error {
	if err == nil {
		return nil
	}
	failure := *status.FromError(err)
	if failure.Outcome == status.OutcomeNone {
		failure.Outcome = status.OutcomeExecuted
	}
	if _, known := status.ParseCode(failure.Code.String()); !known || failure.Code == status.OK {
		failure.Code = status.Unknown
	}
	return &failure
}
