package server

import (
	"context"

	"github.com/nearcall/nearcall/internal/dispatch"
)

// A Typed is a function whose types are known when the program is compiled, so that
// calling it needs no reflection, however large its signature is. Pass it to Register in
// place of the function. Plain functions need no wrapping, unless their results are more
// than registers hold.
type Typed struct{ adapter dispatch.Adapter }

// Func0 wraps a function without parameters.
func Func0[R any](fn func(ctx context.Context) (R, error)) Typed { return Typed{dispatch.Func0(fn)} }

// Func1 wraps a function with one parameter.
func Func1[A, R any](fn func(ctx context.Context, a A) (R, error)) Typed {
	return Typed{dispatch.Func1(fn)}
}

// Func2 wraps a function with two parameters.
func Func2[A, B, R any](fn func(ctx context.Context, a A, b B) (R, error)) Typed {
	return Typed{dispatch.Func2(fn)}
}

// Func3 wraps a function with three parameters.
func Func3[A, B, C, R any](fn func(ctx context.Context, a A, b B, c C) (R, error)) Typed {
	return Typed{dispatch.Func3(fn)}
}

// Func4 wraps a function with four parameters.
func Func4[A, B, C, D, R any](fn func(ctx context.Context, a A, b B, c C, d D) (R, error)) Typed {
	return Typed{dispatch.Func4(fn)}
}
