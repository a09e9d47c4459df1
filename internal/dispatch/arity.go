package dispatch

import (
	"context"
	"errors"
	"reflect"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/schema"
)

// Func0 adapts a function without parameters.
func Func0[R any](fn func(context.Context) (R, error)) Adapter {
	bind := func(of *schema.Function, results codec.Option) (callFunc, error) {
		type frame struct{ result R }
		call, err := bindInvocation(of, results,
			func(*arguments, *frame) {},
			func(ctx context.Context, f *frame) (_ *R, err error) {
				f.result, err = fn(ctx)
				return &f.result, err
			})
		return plain0(of, fn, call), err
	}
	return newAdapter[R](reflect.TypeOf(fn), fn == nil, bind)
}

// Func1 adapts a function of one parameter.
func Func1[A, R any](fn func(context.Context, A) (R, error)) Adapter {
	bind := func(of *schema.Function, results codec.Option) (callFunc, error) {
		type frame struct {
			a      A
			result R
		}
		codecA, err := argumentCodec[A]()
		if err != nil {
			return nil, err
		}
		call, err := bindInvocation(of, results,
			func(args *arguments, f *frame) { next(args, codecA, &f.a) },
			func(ctx context.Context, f *frame) (_ *R, err error) {
				f.result, err = fn(ctx, f.a)
				return &f.result, err
			})
		return plain1(of, fn, call), err
	}
	adapter := newAdapter[R](reflect.TypeOf(fn), fn == nil, bind)
	if raw, ok := any(fn).(rawFunc); ok && fn != nil {
		adapter.raw = withStatus(raw)
	}
	return adapter
}

// withStatus gives a raw function's errors their outcome.
func withStatus(raw rawFunc) rawFunc {
	return func(ctx context.Context, data []byte) ([]byte, error) {
		result, err := raw(ctx, data)
		if err != nil {
			return nil, executed(err)
		}
		return result, nil
	}
}

// Func2 adapts a function of two parameters.
func Func2[A, B, R any](fn func(context.Context, A, B) (R, error)) Adapter {
	bind := func(of *schema.Function, results codec.Option) (callFunc, error) {
		type frame struct {
			a      A
			b      B
			result R
		}
		codecA, errA := argumentCodec[A]()
		codecB, errB := argumentCodec[B]()
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		call, err := bindInvocation(of, results,
			func(args *arguments, f *frame) {
				next(args, codecA, &f.a)
				next(args, codecB, &f.b)
			},
			func(ctx context.Context, f *frame) (_ *R, err error) {
				f.result, err = fn(ctx, f.a, f.b)
				return &f.result, err
			})
		return plain2(of, fn, call), err
	}
	return newAdapter[R](reflect.TypeOf(fn), fn == nil, bind)
}

// Func3 adapts a function of three parameters.
func Func3[A, B, C, R any](fn func(context.Context, A, B, C) (R, error)) Adapter {
	bind := func(of *schema.Function, results codec.Option) (callFunc, error) {
		type frame struct {
			a      A
			b      B
			c      C
			result R
		}
		codecA, errA := argumentCodec[A]()
		codecB, errB := argumentCodec[B]()
		codecC, errC := argumentCodec[C]()
		if err := errors.Join(errA, errB, errC); err != nil {
			return nil, err
		}
		call, err := bindInvocation(of, results,
			func(args *arguments, f *frame) {
				next(args, codecA, &f.a)
				next(args, codecB, &f.b)
				next(args, codecC, &f.c)
			},
			func(ctx context.Context, f *frame) (_ *R, err error) {
				f.result, err = fn(ctx, f.a, f.b, f.c)
				return &f.result, err
			})
		return plain3(of, fn, call), err
	}
	return newAdapter[R](reflect.TypeOf(fn), fn == nil, bind)
}

// Func4 adapts a function of four parameters.
func Func4[A, B, C, D, R any](fn func(context.Context, A, B, C, D) (R, error)) Adapter {
	bind := func(of *schema.Function, results codec.Option) (callFunc, error) {
		type frame struct {
			a      A
			b      B
			c      C
			d      D
			result R
		}
		codecA, errA := argumentCodec[A]()
		codecB, errB := argumentCodec[B]()
		codecC, errC := argumentCodec[C]()
		codecD, errD := argumentCodec[D]()
		if err := errors.Join(errA, errB, errC, errD); err != nil {
			return nil, err
		}
		return bindInvocation(of, results,
			func(args *arguments, f *frame) {
				next(args, codecA, &f.a)
				next(args, codecB, &f.b)
				next(args, codecC, &f.c)
				next(args, codecD, &f.d)
			},
			func(ctx context.Context, f *frame) (_ *R, err error) {
				f.result, err = fn(ctx, f.a, f.b, f.c, f.d)
				return &f.result, err
			})
	}
	return newAdapter[R](reflect.TypeOf(fn), fn == nil, bind)
}
