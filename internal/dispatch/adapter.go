package dispatch

import (
	"context"
	"reflect"
	"sync"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// An Adapter is a Go function with a way to call it that needs no reflection
// and, for basic types, no allocation. Func0 to Func4 make one.
type Adapter struct {
	signature schema.GoSignature
	bind      bindFunc
	raw       rawFunc
}

// bindFunc completes a function; results says how its results are encoded.
type bindFunc = func(of *schema.Function, results codec.Option) (callFunc, error)

// None is the result type of an adapted function that has no result.
type None struct{}

// A resultAppend appends a result. Its files, and long []byte, may be added to beside.
type resultAppend[R any] func(beside *codec.Beside, dst []byte, value *R) ([]byte, error)

// An invocation knows how to call a function with a certain number of parameters. F
// holds the arguments and the result of one call, and R is the type of the result.
type invocation[F, R any] struct {
	of     *schema.Function
	frames sync.Pool
	result resultAppend[R]
	// decode fills F, which is called the frame. run calls the function, leaves the
	// result in the frame, and returns a pointer to it.
	decode func(*arguments, *F)
	run    func(context.Context, *F) (*R, error)
}

// A pooled is a frame with its argument reader, which would otherwise be allocated for
// each call.
type pooled[F any] struct {
	arguments arguments
	frame     F
}

// call borrows a frame for the time of the call. A frame goes back zeroed, so
// that it keeps nothing alive and no call sees another's arguments; when the
// function panics it does not go back at all.
func (i *invocation[F, R]) call(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
	borrowed := i.frames.Get().(*pooled[F])
	dst, err := i.callIn(ctx, borrowed, beside, payload, dst)
	*borrowed = pooled[F]{}
	i.frames.Put(borrowed)
	return dst, err
}

func (i *invocation[F, R]) callIn(ctx context.Context, in *pooled[F], beside *codec.Beside, payload, dst []byte) ([]byte, error) {
	in.arguments.open(i.of, beside, payload)
	i.decode(&in.arguments, &in.frame)
	if err := in.arguments.close(); err != nil {
		return dst, err
	}
	result, err := i.run(ctx, &in.frame)
	if err != nil {
		return dst, executed(err)
	}
	out, err := i.result(beside, dst, result)
	if err != nil {
		return out, resultLost(i.of, err)
	}
	return out, nil
}

// bindInvocation completes an invocation for one function.
func bindInvocation[F, R any](of *schema.Function, results codec.Option, decode func(*arguments, *F), run func(context.Context, *F) (*R, error)) (callFunc, error) {
	result, err := resultAppender[R](results)
	if err != nil {
		return nil, err
	}
	i := &invocation[F, R]{of: of, result: result, decode: decode, run: run}
	i.frames.New = func() any { return new(pooled[F]) }
	return i.call, nil
}

func resultAppender[R any](options codec.Option) (resultAppend[R], error) {
	if isNone[R]() {
		return func(_ *codec.Beside, dst []byte, _ *R) ([]byte, error) { return msgp.AppendNil(dst), nil }, nil
	}
	by, err := codec.For[R](options)
	if err != nil {
		return nil, err
	}
	return by.AppendWith, nil
}

func isNone[R any]() bool { return reflect.TypeFor[R]() == reflect.TypeFor[None]() }

func argumentCodec[T any]() (*codec.Codec[T], error) {
	return codec.For[T](codec.AliasBytes)
}

// newAdapter completes an adapter. isNil says that the user's function is nil.
func newAdapter[R any](t reflect.Type, isNil bool, bind bindFunc) Adapter {
	signature, err := schema.SignatureOf(t)
	if err != nil || isNil {
		return Adapter{}
	}
	if isNone[R]() {
		signature.Results = nil
	}
	return Adapter{signature: signature, bind: bind}
}
