package dispatch

import (
	"context"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// Functions whose parameters and result are basic types are called with arguments that lie
// nowhere: to borrow a frame, and to lead the codec to it, would cost more than all else that
// is done for such a call. What is not plainly right about a request is left to the other
// way of calling, which finds out what it is, and says so.

// plain0 returns a quicker way to call than other, or other if there is none.
func plain0[R any](of *schema.Function, fn func(context.Context) (R, error), other callFunc) callFunc {
	result := plainResult[R](of)
	if result == nil {
		return other
	}
	return func(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
		if rest, found := msgpack.CutShortList(payload, 0); !found || len(rest) > 0 {
			return other(ctx, beside, payload, dst)
		}
		beside.Release()
		value, err := fn(ctx)
		return result(beside, dst, value, err)
	}
}

func plain1[A, R any](of *schema.Function, fn func(context.Context, A) (R, error), other callFunc) callFunc {
	readA, result := codec.PlainReaderFor[A](), plainResult[R](of)
	if readA == nil || result == nil {
		return other
	}
	return func(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
		rest, found := msgpack.CutShortList(payload, 1)
		if !found {
			return other(ctx, beside, payload, dst)
		}
		a, rest, err := readA(rest)
		if err != nil || len(rest) > 0 {
			return other(ctx, beside, payload, dst)
		}
		beside.Release()
		value, err := fn(ctx, a)
		return result(beside, dst, value, err)
	}
}

func plain2[A, B, R any](of *schema.Function, fn func(context.Context, A, B) (R, error), other callFunc) callFunc {
	readA, readB, result := codec.PlainReaderFor[A](), codec.PlainReaderFor[B](), plainResult[R](of)
	if readA == nil || readB == nil || result == nil {
		return other
	}
	return func(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
		rest, found := msgpack.CutShortList(payload, 2)
		if !found {
			return other(ctx, beside, payload, dst)
		}
		a, rest, errA := readA(rest)
		b, rest, errB := readB(rest)
		if errA != nil || errB != nil || len(rest) > 0 {
			return other(ctx, beside, payload, dst)
		}
		beside.Release()
		value, err := fn(ctx, a, b)
		return result(beside, dst, value, err)
	}
}

func plain3[A, B, C, R any](of *schema.Function, fn func(context.Context, A, B, C) (R, error), other callFunc) callFunc {
	readA, readB, readC := codec.PlainReaderFor[A](), codec.PlainReaderFor[B](), codec.PlainReaderFor[C]()
	result := plainResult[R](of)
	if readA == nil || readB == nil || readC == nil || result == nil {
		return other
	}
	return func(ctx context.Context, beside *codec.Beside, payload, dst []byte) ([]byte, error) {
		rest, found := msgpack.CutShortList(payload, 3)
		if !found {
			return other(ctx, beside, payload, dst)
		}
		a, rest, errA := readA(rest)
		b, rest, errB := readB(rest)
		c, rest, errC := readC(rest)
		if errA != nil || errB != nil || errC != nil || len(rest) > 0 {
			return other(ctx, beside, payload, dst)
		}
		beside.Release()
		value, err := fn(ctx, a, b, c)
		return result(beside, dst, value, err)
	}
}

// plainResult returns how a result, or the error in its place, becomes what a callFunc
// returns, or nil if the result is of no basic type.
func plainResult[R any](of *schema.Function) func(beside *codec.Beside, dst []byte, value R, failure error) ([]byte, error) {
	appender := codec.PlainAppenderFor[R]()
	if isNone[R]() {
		appender = func(_ *codec.Beside, dst []byte, _ R) ([]byte, error) { return msgp.AppendNil(dst), nil }
	}
	if appender == nil {
		return nil
	}
	return func(beside *codec.Beside, dst []byte, value R, failure error) ([]byte, error) {
		if failure != nil {
			return dst, executed(failure)
		}
		out, err := appender(beside, dst, value)
		if err != nil {
			return dst, resultLost(of, err)
		}
		return out, nil
	}
}
