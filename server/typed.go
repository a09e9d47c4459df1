package server

import (
	"context"

	"github.com/nearcall/nearcall/internal/dispatch"
)

// A Typed is a function whose types the compiler has seen, so that calls need
// no reflection and no allocation for basic types. Register takes it in the
// place of the function. Plain functions of common signatures get the same
// treatment without being wrapped.
type Typed = dispatch.Adapter

// Func0 wraps a function without arguments.
func Func0[R any](fn func(ctx context.Context) (R, error)) Typed { return dispatch.Func0(fn) }

// Func1 wraps a function of one argument.
func Func1[A, R any](fn func(ctx context.Context, a A) (R, error)) Typed { return dispatch.Func1(fn) }

// Func2 wraps a function of two arguments.
func Func2[A, B, R any](fn func(ctx context.Context, a A, b B) (R, error)) Typed {
	return dispatch.Func2(fn)
}

// Func3 wraps a function of three arguments.
func Func3[A, B, C, R any](fn func(ctx context.Context, a A, b B, c C) (R, error)) Typed {
	return dispatch.Func3(fn)
}

// Func4 wraps a function of four arguments.
func Func4[A, B, C, D, R any](fn func(ctx context.Context, a A, b B, c C, d D) (R, error)) Typed {
	return dispatch.Func4(fn)
}
