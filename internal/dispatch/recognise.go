package dispatch

import (
	"context"
	"reflect"

	"github.com/nearcall/nearcall/internal/schema"
)

// commonAdapter recognises the signatures that most functions have, so that they are
// called without reflection although they were registered without a wrapper.
func commonAdapter(fn any) (Adapter, bool) {
	// The schema and the server see the function itself.
	signature, err := schema.SignatureOf(reflect.TypeOf(fn))
	if err != nil {
		return Adapter{}, false
	}
	for _, recognise := range recognisers(len(signature.Params), len(signature.Results) > 0) {
		if adapter, ok := recognise(fn); ok {
			adapter.signature = signature
			return adapter, true
		}
	}
	return Adapter{}, false
}

// recognisers takes the place of a type switch over all combinations of these types,
// with and without a context and an error. It returns those for functions of so many
// parameters, besides a context, that return a value or nothing but an error. The others
// are not even looked at, because a server tries them for each of its functions before it
// serves.
func recognisers(params int, returnsValue bool) []func(any) (Adapter, bool) {
	if !returnsValue {
		return errorRecognisers(params)
	}
	switch params {
	case 0:
		return []func(any) (Adapter, bool){
			shape0[bool], shape0[int], shape0[int64], shape0[uint64], shape0[float64], shape0[string], shape0[[]byte],
		}
	case 1:
		return []func(any) (Adapter, bool){
			shape1[bool, bool], shape1[int, int], shape1[int64, int64], shape1[uint64, uint64], shape1[float64, float64],
			shape1[string, string], shape1[[]byte, []byte], shape1[string, bool], shape1[string, int64], shape1[string, []byte],
			shape1[int64, string], shape1[int64, bool], shape1[int64, []byte], shape1[[]byte, string], shape1[[]byte, int64],
		}
	case 2:
		return []func(any) (Adapter, bool){
			shape2[int, int, int], shape2[int64, int64, int64], shape2[uint64, uint64, uint64], shape2[float64, float64, float64],
			shape2[string, string, string], shape2[string, string, bool], shape2[string, int64, string], shape2[uint64, int64, uint64],
		}
	case 3:
		return []func(any) (Adapter, bool){
			shape3[int64, int64, int64, int64], shape3[float64, float64, float64, float64], shape3[string, string, string, string],
		}
	}
	return nil
}

func errorRecognisers(params int) []func(any) (Adapter, bool) {
	switch params {
	case 0:
		return []func(any) (Adapter, bool){errorOnly0}
	case 1:
		return []func(any) (Adapter, bool){errorOnly1[int64], errorOnly1[string], errorOnly1[[]byte]}
	case 2:
		return []func(any) (Adapter, bool){errorOnly2[string, string], errorOnly2[int64, string]}
	}
	return nil
}

func shape0[R any](fn any) (Adapter, bool) {
	switch f := fn.(type) {
	case func() R:
		return Func0(func(context.Context) (R, error) { return f(), nil }), true
	case func() (R, error):
		return Func0(func(context.Context) (R, error) { return f() }), true
	case func(context.Context) R:
		return Func0(func(ctx context.Context) (R, error) { return f(ctx), nil }), true
	case func(context.Context) (R, error):
		return Func0(f), true
	}
	return Adapter{}, false
}

func shape1[A, R any](fn any) (Adapter, bool) {
	switch f := fn.(type) {
	case func(A) R:
		return Func1(func(_ context.Context, a A) (R, error) { return f(a), nil }), true
	case func(A) (R, error):
		return Func1(func(_ context.Context, a A) (R, error) { return f(a) }), true
	case func(context.Context, A) R:
		return Func1(func(ctx context.Context, a A) (R, error) { return f(ctx, a), nil }), true
	case func(context.Context, A) (R, error):
		return Func1(f), true
	}
	return Adapter{}, false
}

func shape2[A, B, R any](fn any) (Adapter, bool) {
	switch f := fn.(type) {
	case func(A, B) R:
		return Func2(func(_ context.Context, a A, b B) (R, error) { return f(a, b), nil }), true
	case func(A, B) (R, error):
		return Func2(func(_ context.Context, a A, b B) (R, error) { return f(a, b) }), true
	case func(context.Context, A, B) R:
		return Func2(func(ctx context.Context, a A, b B) (R, error) { return f(ctx, a, b), nil }), true
	case func(context.Context, A, B) (R, error):
		return Func2(f), true
	}
	return Adapter{}, false
}

func shape3[A, B, C, R any](fn any) (Adapter, bool) {
	switch f := fn.(type) {
	case func(A, B, C) R:
		return Func3(func(_ context.Context, a A, b B, c C) (R, error) { return f(a, b, c), nil }), true
	case func(A, B, C) (R, error):
		return Func3(func(_ context.Context, a A, b B, c C) (R, error) { return f(a, b, c) }), true
	case func(context.Context, A, B, C) (R, error):
		return Func3(f), true
	}
	return Adapter{}, false
}

func errorOnly0(fn any) (Adapter, bool) {
	switch f := fn.(type) {
	case func() error:
		return Func0(func(context.Context) (None, error) { return None{}, f() }), true
	case func(context.Context) error:
		return Func0(func(ctx context.Context) (None, error) { return None{}, f(ctx) }), true
	}
	return Adapter{}, false
}

func errorOnly1[A any](fn any) (Adapter, bool) {
	switch f := fn.(type) {
	case func(A) error:
		return Func1(func(_ context.Context, a A) (None, error) { return None{}, f(a) }), true
	case func(context.Context, A) error:
		return Func1(func(ctx context.Context, a A) (None, error) { return None{}, f(ctx, a) }), true
	}
	return Adapter{}, false
}

func errorOnly2[A, B any](fn any) (Adapter, bool) {
	switch f := fn.(type) {
	case func(A, B) error:
		return Func2(func(_ context.Context, a A, b B) (None, error) { return None{}, f(a, b) }), true
	case func(context.Context, A, B) error:
		return Func2(func(ctx context.Context, a A, b B) (None, error) { return None{}, f(ctx, a, b) }), true
	}
	return Adapter{}, false
}
