package nearcalltest

import (
	"context"
	"reflect"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/dispatch"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A Fake is a client.Caller that runs Go functions by their names, without a server:
//
//	fake := nearcalltest.Fake{"add": func(a, b int64) int64 { return a + b }}
//	sum, err := client.Call[int64](ctx, fake, "add", 3, 4)
//
// The functions are those that server.Register takes, except those with files. Arguments
// and results are encoded and decoded as on their way to a server. So a fake refuses what a
// server would refuse, and callers and functions share no memory. A call of a function that
// is not there fails with UNIMPLEMENTED, not executed. Functions run in the goroutine of the
// call, and their panics are not caught. Their contexts belong to no call, so
// server.CallFromContext reports false. Do not change a Fake while calls are made.
type Fake map[string]any

var _ client.Caller = Fake(nil)

// Call implements client.Caller.
func (f Fake) Call(ctx context.Context, name string, result any, args ...any) error {
	request, err := codec.AppendValue(nil, args)
	if err != nil {
		return status.Errorf(status.InvalidArgument, "arguments of %s: %w", name, err).With(status.OutcomeNotExecuted)
	}
	reply, err := f.run(ctx, wire.CodecMessagePack, name, request)
	if err != nil || result == nil {
		return err
	}
	return decode(reply, reflect.ValueOf(result))
}

// CallRaw implements client.Caller.
func (f Fake) CallRaw(ctx context.Context, name string, payload, dst []byte) ([]byte, error) {
	reply, err := f.run(ctx, wire.CodecRaw, name, payload)
	return append(dst, reply...), err
}

func (f Fake) run(ctx context.Context, by wire.Codec, name string, request []byte) ([]byte, error) {
	fn, known := f[name]
	if !known {
		return nil, status.Errorf(status.Unimplemented, "the fake has no function %q", name).With(status.OutcomeNotExecuted)
	}
	function, err := dispatch.NewFunction(name, fn, dispatch.Options{})
	if err != nil {
		return nil, status.Errorf(status.InvalidArgument, "%w", err).With(status.OutcomeNotExecuted)
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromError(err).With(status.OutcomeNotExecuted)
	}
	reply, err := function.Call(ctx, by, request, nil)
	if err != nil {
		return nil, status.FromError(err)
	}
	return reply, nil
}

// decode stores a result. A struct without fields is the place for no result.
func decode(reply []byte, result reflect.Value) error {
	if result.Kind() != reflect.Pointer || result.IsNil() {
		return status.Errorf(status.InvalidArgument, "the place for the result is a %v; pass a pointer", result.Type()).With(status.OutcomeExecutedResultLost)
	}
	place := result.Elem()
	if place.Kind() == reflect.Struct && place.NumField() == 0 {
		return nil
	}
	plan, err := codec.NewPlan(place.Type(), codec.IgnoreUnknownFields|codec.ListFillsFields)
	if err == nil {
		_, err = plan.Decode(reply, place)
	}
	if err != nil {
		return status.Errorf(status.Internal, "the function ran, but its result cannot be decoded: %w", err).With(status.OutcomeExecutedResultLost)
	}
	return nil
}
