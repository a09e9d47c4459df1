package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/nexts"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// An execution is one run of a function: what goes in and what comes out. The reader
// reuses one for all its calls; calls that run apart have one each.
//
// A function may end its goroutine (runtime.Goexit, t.FailNow). The caller then gets
// the same answer as after a panic. For a call that runs apart, deferred functions send
// it; for a call of the reader, the goroutine that takes the reader's place does.
type execution struct {
	server     *Server
	connection *connection // nil if the caller is in this process
	id         uint64
	function   *function
	codec      wire.Codec
	payload    []byte
	counted    int64        // bytes counted in the user's share for the memory of the payload
	owned      bool         // the payload is this call's alone, so that arguments may keep it
	context    *callContext // nil if nobody can ask for it
	marks      *sharedmemory.Marks
	files      *descriptors.Table // nil if the function passes no files
	stored     *storedPayload     // where the payload lies, nil unless that is a store
	forwarded  *forward.Request   // what is passed on, except for the payload; nil unless the function is forwarded
	held       bool               // must wait until there is room for the reply
	byName     bool               // the request named the function, so its answer may say where else that is
	observed   *observe.Call      // what the observer is told, nil without an observer

	// These are for calls that a reader runs itself; reader is nil for others.
	reader    *reader
	mark      uint64 // the mark that role.begin returned
	startedNs uint64
	untimed   bool

	// These are for such calls of the simple protocol. late is nil until the reader has
	// lost its role to another one, and is closed when the function has returned.
	expiryNs uint64
	late     chan struct{}

	called    bool  // whether the function was called
	returned  bool  // whether it has returned to the interceptors
	callError error // the error that it returned
	nexts     nexts.Guard
	result    []byte
	meter     msgpack.Meter // of what the arguments take
	decoded   int64         // bytes of them that are counted in the user's share
	gathers   bool          // long parts of typed results may stay where they are
	beside    codec.Beside  // these parts, and the files while the function is called
	parts     [][]byte      // of the reply, while it is sent
	scratch   []byte        // where typed results are encoded
	reserved  int64         // bytes of it that are counted in the user's share
	err       error         // nil or a *status.Error with its outcome
}

// start runs the function and marks how far it has come. If the connection was closed
// it does not run the function, because the mark has already told the caller so.
func (e *execution) start(ctx context.Context) {
	if e.marks == nil {
		e.run(ctx)
		return
	}
	e.marks.Set(e.id, sharedmemory.StageStarted)
	if e.connection.gate.Load() {
		e.called = false
		e.err = e.connection.notStarted(context.Canceled)
	} else {
		e.run(ctx)
	}
	e.markEnd()
}

// markEnd marks that the call is over.
func (e *execution) markEnd() {
	if e.marks != nil {
		e.marks.Set(e.id, e.stageAtEnd())
	}
}

// stageAtEnd returns how far a call came that is over. An outcome that is unknown is that of a
// call which was passed on to another server, so nobody here can say that it came to its end.
func (e *execution) stageAtEnd() sharedmemory.Stage {
	switch {
	case !e.called:
		return sharedmemory.StageReceived
	case e.err != nil && status.FromError(e.err).Outcome == status.OutcomeUnknown:
		return sharedmemory.StageStarted
	}
	return sharedmemory.StageFinished
}

// run runs the function inside the interceptors, and turns a panic into an error. It
// sets result and err.
func (e *execution) run(ctx context.Context) {
	returned := false
	defer func() {
		cause := recover()
		switch {
		case cause != nil:
			e.giveBackDecoded()
			e.err = e.recovered(panicText(cause), "panicked")
		case !returned:
			e.giveBackDecoded()
			if e.err = e.callError; e.err == nil {
				e.err = e.recovered("", leftGoroutine)
			}
			e.markEnd()
			if e.reader != nil {
				go e.reader.goOn(e.reader)
			}
		}
	}()
	e.called, e.returned, e.callError = false, false, nil
	if len(e.function.interceptors) > 0 {
		e.err = e.settle(e.interceptAll(ctx))
	} else if e.err = e.call(ctx); e.err != nil {
		e.err = withOutcome(e.err)
	}
	returned = true
}

func (e *execution) call(ctx context.Context) (err error) {
	if e.function.argumentBytesMax > 0 {
		if err := e.countRun(); err != nil {
			return err
		}
	}
	e.called = true
	if e.function.forward != nil {
		return e.callForwarded(ctx)
	}
	if e.codec == wire.CodecRaw && e.function.raw != nil {
		e.result, err = e.function.raw(ctx, e.payload)
		return err
	}
	e.result, err = e.function.CallWith(ctx, e.takeBeside(), e.codec, e.payload, e.scratch[:0])
	e.giveBackDecoded()
	if err != nil && status.FromError(err).Outcome == status.OutcomeNotExecuted {
		e.called = false // its arguments were refused
	}
	if cap(e.result) > cap(e.scratch) {
		e.keepScratch()
	}
	return err
}

// takeBeside returns what goes beside arguments and result.
func (e *execution) takeBeside() *codec.Beside {
	b := &e.beside
	if c := e.connection; c != nil && c.stores != nil {
		b.BytesMax = c.agreed.valueBytesMax
	}
	b.Files, b.Gathers, b.KeptBytesMin = e.files, e.gathers && e.files == nil && len(e.function.interceptors) == 0, 0
	if e.function.slots != nil {
		// The next call, which may use the memory of the result, begins before that is sent.
		b.Gathers = false
	}
	if e.connection != nil {
		e.meter = msgpack.Meter{Left: decodedBytesFree, Lender: e}
		b.Meter = &e.meter
	}
	switch {
	case e.function.borrows:
		b.Borrow()
	case e.owned:
		b.Keep(len(e.payload))
	}
	return b
}

const (
	// decodedBytesFree is what arguments may take without being counted.
	decodedBytesFree = 16 << 10
	// decodedBytesStep is what is counted at least when they take more.
	decodedBytesStep = 64 << 10
)

// Lend counts memory for arguments that are being decoded.
func (e *execution) Lend(bytes int) (granted int, err error) {
	of := &e.connection.user.input
	granted = max(bytes, decodedBytesStep)
	if !of.take(int64(granted)) {
		return 0, refusedf(status.ResourceExhausted, "%s takes arguments that need more memory than they have bytes: %s", e.function.name, of.shortage(int64(granted)))
	}
	e.decoded += int64(granted)
	return granted, nil
}

// runBytesPerByte is what a tree of `any` takes for a byte of JSON, in round numbers.
const runBytesPerByte = 64

// countRun counts what a function makes of its arguments while it runs.
func (e *execution) countRun() error {
	if limit := e.function.argumentBytesMax; len(e.payload) > limit {
		return refusedf(status.InvalidArgument, "%s takes %d bytes of arguments at most, not %d", e.function.name, limit, len(e.payload))
	}
	if e.connection == nil {
		return nil
	}
	_, err := e.Lend(len(e.payload) * runBytesPerByte)
	return err
}

// giveBackDecoded gives back what was counted for arguments. What the function keeps of
// them is its own matter.
func (e *execution) giveBackDecoded() {
	if e.decoded > 0 {
		e.connection.user.input.giveBack(e.decoded)
		e.decoded = 0
	}
}

// resultBytes returns how many bytes the result has in all.
func (e *execution) resultBytes() int { return len(e.result) + e.beside.PieceBytes() }

// interceptAll runs the interceptors. It returns when none of them uses the execution any
// more, not even in goroutines that they have left behind.
func (e *execution) interceptAll(ctx context.Context) error {
	round := e.nexts.Begin()
	defer e.nexts.End()
	return e.intercept(ctx, round, 0)
}

func (e *execution) intercept(ctx context.Context, round uint64, index int) error {
	if interceptors := e.function.interceptors; index < len(interceptors) {
		return interceptors[index](ctx, (*interceptedCall)(e), func(ctx context.Context) (err error) {
			if !e.nexts.Enter(round) {
				return refusedf(status.Internal, "an interceptor called next when its call was over")
			}
			defer e.nexts.Leave()
			left := true
			defer e.recoverNext(&err, &left)
			err = e.intercept(ctx, round, index+1)
			left = false
			return err
		})
	}
	if !e.nexts.Claim() {
		return status.Errorf(status.Internal, "an interceptor called %s more than once", e.function.name)
	}
	e.callError = withOutcome(e.call(ctx))
	e.returned = true
	return e.callError
}

// recoverNext makes a panic of the function, or of an interceptor inside, the error of next: the
// goroutine may be one that an interceptor has started, where nobody else recovers. left tells that
// the function or the interceptor did not return; without a panic it has ended the goroutine.
func (e *execution) recoverNext(err *error, left *bool) {
	cause := recover()
	if cause == nil && !*left {
		return
	}
	e.giveBackDecoded()
	running := e.called && !e.returned
	switch {
	case cause != nil:
		*err = e.recovered(panicText(cause), "panicked")
	case running:
		*err = e.recovered("", leftGoroutine)
	}
	if running {
		e.callError, e.returned = *err, true
	}
}

// leftGoroutine is what a function did that neither returned nor panicked.
const leftGoroutine = "ended its goroutine (runtime.Goexit)"

// settle turns the error that interceptors have returned into one that can be sent.
// Whether the function ran is decided only by what happened here, not by other calls
// that interceptors have made. A call without a result cannot be turned into a success.
func (e *execution) settle(err error) error {
	switch {
	case err == nil && e.callError != nil:
		return e.callError
	case err == nil && e.called && !e.returned:
		err = status.Errorf(status.Internal, "function %s panicked, and an interceptor did not say so", e.function.name)
	case err == nil && !e.called:
		err = status.Errorf(status.Internal, "an interceptor of %s neither called it nor said why", e.function.name)
	case err == nil:
		return nil
	}
	failure := *status.FromError(withOutcome(err))
	failure.Outcome = e.outcome()
	return &failure
}

// cancel ends the context of the call, with a cause.
func (e *execution) cancel(cause error) {
	if e.context != nil {
		e.context.end(cause)
	}
}

// finish ends the context of a call that has run.
func (e *execution) finish() {
	if e.context != nil {
		e.context.finish()
	}
}

// panicText returns what a panic says. The value may have code of its own, which may do
// anything but end this goroutine, whose call is not answered yet, or the process: it may end
// its own goroutine, and it may panic. Of values that have neither a text nor one that is short
// the type is told: they may contain themselves.
func panicText(cause any) string {
	text := make(chan string, 1)
	go func() {
		said := false
		defer func() {
			if recover(); !said {
				text <- fmt.Sprintf("a %T, whose text cannot be had", cause)
			}
		}()
		text <- sayPanic(cause)
		said = true
	}()
	return <-text
}

func sayPanic(cause any) string {
	switch known := cause.(type) {
	case error:
		return known.Error()
	case fmt.Stringer:
		return known.String()
	}
	switch reflect.ValueOf(cause).Kind() {
	case reflect.Slice, reflect.Map, reflect.Struct, reflect.Array, reflect.Pointer, reflect.Interface:
		return fmt.Sprintf("a %T", cause)
	}
	return fmt.Sprint(cause)
}

// recovered logs what the function did instead of returning, and returns the error that
// says so.
func (e *execution) recovered(cause, did string) error {
	e.server.config.logger.Error("function "+did,
		"function", e.function.name, "panic", cause, "stack", string(debug.Stack()))
	return &status.Error{
		// An interceptor may have panicked before the function ran.
		Code: status.Internal, Outcome: e.outcome(),
		Message: fmt.Sprintf("function %s %s; the server's log has the stack", e.function.name, did),
		Cause:   errors.New("panic"),
	}
}

// withOutcome turns err into one that can be sent: an error of the function itself
// means that the function was executed.
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
