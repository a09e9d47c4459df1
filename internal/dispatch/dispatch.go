// Package dispatch leads from a request to the user's function and back: it decodes the
// arguments, calls the function, and encodes the result. What a function looks like is
// found out once, when it is made.
//
// The package knows nothing about connections. It does not recover from panics, and it
// limits neither time nor concurrency; the server does that, by the options kept here.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
	"github.com/tinylib/msgp/msgp"
)

// Options says what a Go function's type does not.
type Options struct {
	// Doc is shown to whoever looks at the schema.
	Doc string
	// ParamNames names each parameter but a leading context. Without any they
	// are called arg1, arg2 and so on.
	ParamNames []string
	// Idempotent says that running the function twice does what running it once does.
	Idempotent bool
	// MaxRunTime bounds one call; 0 means that only the caller's deadline does.
	MaxRunTime time.Duration
	// MaxConcurrency bounds the calls that run at a time; 0 means no bound.
	MaxConcurrency int
}

// A Function is a Go function that can be called by its encoded arguments. It
// is immutable and may be used by many goroutines, which share memory for calls in JSON.
type Function struct {
	description *schema.Function
	options     Options
	takesCtx    bool
	adapter     Adapter
	raw         rawFunc
	descriptors bool

	// plain and packed are bound when they are first used: a server has many functions, of
	// which most programs call few, and starts the sooner.
	plain, packed atomic.Pointer[callFunc]

	transcodings sync.Pool // of *transcoding
}

// callFunc takes the arguments in MessagePack and appends the result to dst. beside
// holds the files that came with the arguments, and gets what goes beside the result;
// it may be nil.
type callFunc func(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error)

type rawFunc = func(ctx context.Context, data []byte) ([]byte, error)

// NewFunction makes a function that callers know by name. fn is an Adapter, or any Go
// function whose parameters and results have types in the schema, with an optional
// leading context.Context and an optional trailing error. If a parameter or result is
// not supported, the error says which, and why.
//
// A parameter of type []byte points into the request and is valid until the function
// returns. The function may keep everything else, unless it was called with a Beside that
// lends it more.
func NewFunction(name string, fn any, options Options) (*Function, error) {
	adapter, err := adapterFor(name, fn)
	if err != nil {
		return nil, err
	}
	if options.MaxRunTime < 0 || options.MaxConcurrency < 0 {
		return nil, fmt.Errorf("function %s: MaxRunTime and MaxConcurrency are 0 for no bound, and never negative", name)
	}
	description, err := schema.FromGoFunction(name, adapter.signature, schema.GoOptions{
		Doc: options.Doc, ParamNames: options.ParamNames, Idempotent: options.Idempotent})
	if err != nil {
		return nil, err
	}
	f := &Function{description: description, options: options, takesCtx: adapter.signature.TakesContext,
		descriptors: description.UsesDescriptors(), adapter: adapter}
	if description.Raw {
		f.raw = adapter.raw
		if f.raw == nil {
			f.raw = f.rawByCall
		}
	}
	return f, nil
}

func adapterFor(name string, fn any) (Adapter, error) {
	if adapter, ok := fn.(Adapter); ok {
		if adapter.bind == nil {
			return adapter, fmt.Errorf("function %s is nil", name)
		}
		return adapter, nil
	}
	value := reflect.ValueOf(fn)
	if value.Kind() != reflect.Func {
		return Adapter{}, fmt.Errorf("function %s: %T is not a function", name, fn)
	}
	if value.IsNil() {
		return Adapter{}, fmt.Errorf("function %s is nil", name)
	}
	if adapter, ok := commonAdapter(fn); ok {
		return adapter, nil
	}
	return anyShapeAdapter(value)
}

// Described returns a function that has a description and cannot be called: whoever has it
// calls in a way of its own.
func Described(description *schema.Function, options Options) *Function {
	none := func(of *schema.Function, _ codec.Option) (callFunc, error) {
		return nil, fmt.Errorf("%s has only a description here", of.Name)
	}
	return &Function{description: description, options: options, takesCtx: true,
		descriptors: description.UsesDescriptors(), adapter: Adapter{bind: none}}
}

// Description returns what the schema says about the function.
func (f *Function) Description() *schema.Function { return f.description }

// Options returns the options with which the function was made.
func (f *Function) Options() Options { return f.options }

// TakesContext reports whether the function can be told to stop.
func (f *Function) TakesContext() bool { return f.takesCtx }

// UsesDescriptors reports whether arguments or results may hold files or
// connections. Such a function is called by CallWith.
func (f *Function) UsesDescriptors() bool { return f.descriptors }

// Raw returns the function for payloads in codec 0, or nil if it does not take and
// return bytes. Its errors are those of Call. The result may alias data, so data must
// not change until the result has been used.
func (f *Function) Raw() func(ctx context.Context, data []byte) ([]byte, error) {
	return f.raw
}

// Call decodes the arguments in payload, runs the function and appends its
// result to dst, which payload must not overlap. An error is a *status.Error
// whose outcome says whether the function ran; dst then keeps its length.
func (f *Function) Call(ctx context.Context, by wire.Codec, payload, dst []byte) ([]byte, error) {
	return f.CallWith(ctx, nil, by, payload, dst)
}

// CallWith is Call for functions whose arguments and results may hold files. Those of
// the arguments are taken from beside, and belong to the function once it starts; those
// of the result are added to it, and what it may gather of the result.
func (f *Function) CallWith(ctx context.Context, beside *codec.Beside, by wire.Codec, payload, dst []byte) ([]byte, error) {
	switch by {
	case wire.CodecMessagePack:
		return f.bound(&f.plain, 0)(ctx, beside, payload, dst)
	case wire.CodecPacked:
		return f.bound(&f.packed, codec.PackLists)(ctx, beside, payload, dst)
	case wire.CodecJSON:
		return f.callJSON(ctx, beside, payload, dst)
	case wire.CodecRaw:
		return f.callRaw(ctx, payload, dst)
	}
	return dst, status.Errorf(status.Unimplemented, "codec %d is not supported: use raw (0), MessagePack (1), JSON (2) or packed MessagePack (4)", by).
		With(status.OutcomeNotExecuted)
}

// bound returns what calls the function, with these options for its results.
func (f *Function) bound(kept *atomic.Pointer[callFunc], results codec.Option) callFunc {
	if call := kept.Load(); call != nil {
		return *call
	}
	return f.bind(kept, results)
}

// bind makes it. Of several that are made at the same time all calls use one.
func (f *Function) bind(kept *atomic.Pointer[callFunc], results codec.Option) callFunc {
	call, err := f.adapter.bind(f.description, results)
	if err != nil {
		// There is none, because the types were accepted when they were described.
		err = status.Errorf(status.Internal, "function %s: %w", f.description.Name, err).With(status.OutcomeNotExecuted)
		call = func(_ context.Context, _ *codec.Beside, _, dst []byte) ([]byte, error) { return dst, err }
	}
	if !kept.CompareAndSwap(nil, &call) {
		return *kept.Load()
	}
	return call
}

func (f *Function) callRaw(ctx context.Context, payload, dst []byte) ([]byte, error) {
	if f.raw == nil {
		return dst, refused("%s does not take codec raw (0), which is for functions of one bytes parameter and one bytes result", f.description.Name)
	}
	result, err := f.raw(ctx, payload)
	if err != nil {
		return dst, err
	}
	return append(dst, result...), nil
}

func (f *Function) callJSON(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
	if f.descriptors {
		return dst, refused("%s takes or returns files or connections, which do not travel in JSON: call it with MessagePack", f.description.Name)
	}
	// A function that panics takes its memory along: what it has kept must stay its own.
	in, kept := f.transcodings.Get().(*transcoding)
	if !kept {
		in = new(transcoding)
	}
	// The arguments lie in memory of the transcoding, so that nothing may keep them.
	in.beside.Meter = beside.MeterOf()
	out, err := f.transcode(ctx, in, payload, dst)
	in.beside.Meter = nil
	if cap(in.arguments)+cap(in.result) <= transcodedBytesKept {
		f.transcodings.Put(in)
	}
	return out, err
}

func (f *Function) transcode(ctx context.Context, in *transcoding, payload, dst []byte) (_ []byte, err error) {
	in.arguments, err = codec.AppendArgumentsFromJSON(in.beside.Meter, in.arguments[:0], f.description, payload)
	if err != nil {
		return dst, unfit(f.description, err)
	}
	in.result, err = f.bound(&f.plain, 0)(ctx, &in.beside, in.arguments, in.result[:0])
	if err != nil {
		return dst, err
	}
	out, err := codec.AppendResultsJSON(dst, f.description, in.result)
	if err != nil {
		return out, resultLost(f.description, err)
	}
	return out, nil
}

// A transcoding holds what a call in JSON has in MessagePack.
type transcoding struct {
	arguments, result []byte
	beside            codec.Beside
}

// transcodedBytesKept bounds the memory that a transcoding keeps for the next call.
const transcodedBytesKept = 16 << 10

// rawByCall handles raw payloads for functions whose parameter is a named type of
// bytes.
func (f *Function) rawByCall(ctx context.Context, data []byte) ([]byte, error) {
	reply, err := f.bound(&f.plain, 0)(ctx, nil, msgp.AppendBytes(msgp.AppendArrayHeader(nil, 1), data), nil)
	if err != nil {
		return nil, err
	}
	result, _, err := msgp.ReadBytesZC(reply)
	return result, err
}

// refused returns the error of a call that was not started.
func refused(format string, args ...any) *status.Error {
	return status.Errorf(status.InvalidArgument, format, args...).With(status.OutcomeNotExecuted)
}

// executed returns the error of a call whose function returned err. If that came from a
// call which the function made itself, its outcome is not the outcome of this call.
func executed(err error) error {
	own := *status.FromError(err)
	own.Outcome = status.OutcomeExecuted
	if own.Code == status.OK {
		own.Code = status.Unknown
	}
	return &own
}

func resultLost(f *schema.Function, err error) error {
	code := status.Internal
	if errors.Is(err, msgpack.ErrTooLarge) {
		code = status.ResourceExhausted
	}
	return status.Errorf(code, "the result of %s cannot be encoded: %w", f.Name, err).
		With(status.OutcomeExecutedResultLost)
}
