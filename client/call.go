package client

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// Call calls a function with arguments of any supported type and returns its
// result. A function with several results has them as a list: R is then a slice
// of their type, []any, or Results2 and its like. For a function without result
// R is None, struct{} or any.
//
// For calls that are made often see Func1 and its like, which cost no
// allocation.
func Call[R any](ctx context.Context, c *Client, name string, args ...any) (result R, err error) {
	err = c.Call(ctx, name, &result, args...)
	return result, err
}

// Call calls a function and stores its result where the pointer result points;
// with nil, a *None or a *struct{} it is dropped. The arguments are encoded by their Go types.
// These and the result's are compared with the function's before anything is sent,
// once for each schema of the server: a call that does not fit fails with
// INVALID_ARGUMENT and says where. Values, such as what an any holds, are checked
// by the server before the function runs; an any never stands for a duration. Fields
// of a result that its type does not have are ignored.
func (c *Client) Call(ctx context.Context, name string, result any, args ...any) error {
	return c.call(ctx, name, nil, result, args)
}

// call calls a function by the types that it sees, or by a fixed usage.
func (c *Client) call(ctx context.Context, name string, fixed *usage, result any, args []any) error {
	r := c.take()
	defer c.give(r)
	if failure := r.useTypes(name, result, args); failure != nil {
		return failure
	}
	if fixed != nil {
		r.usage = fixed
	}
	request, failure := appendArguments(&r.files, r.request[:0], args)
	if failure != nil {
		return failure
	}
	r.request = request
	if failure := c.exchange(ctx, r, wire.Request, wire.CodecMessagePack, name, request); failure != nil {
		return failure
	}
	if err := c.decodeResult(r, result); err != nil {
		return err
	}
	r.files.Release()
	return nil
}

func appendArguments(files *descriptors.Table, b []byte, args []any) ([]byte, *status.Error) {
	b = msgpack.AppendListHeader(b, len(args))
	for i, arg := range args {
		var err error
		if b, err = codec.AppendValueWith(files, b, arg); err != nil {
			return nil, badArgument(i, err)
		}
	}
	return b, nil
}

func badArgument(index int, err error) *status.Error {
	return notExecuted(status.InvalidArgument, "argument %d: %w", index+1, err)
}

// useTypes notes what the program passes, and where it wants the result. When that is
// what the call was used for last, it is still bound.
func (r *call) useTypes(name string, result any, args []any) *status.Error {
	var place reflect.Type
	if result != nil {
		pointer := reflect.ValueOf(result)
		if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
			return notExecuted(status.InvalidArgument, "the place for the result is a %T; pass a pointer", result)
		}
		if place = pointer.Type().Elem(); isNone(place) {
			place = nil
		}
	}
	types := &r.dynamic.types
	changed := r.dynamicOf != name || types.result != place || len(types.arguments) != len(args)
	types.result, types.arguments = place, slices.Grow(types.arguments[:0], len(args))[:len(args)]
	for i, arg := range args {
		t := reflect.TypeOf(arg)
		changed = changed || types.arguments[i] != t
		types.arguments[i] = t
	}
	if changed {
		r.dynamic.bound.Store(nil)
	}
	r.dynamicOf, r.usage = name, &r.dynamic
	return nil
}

// decodeResult stores the result where useTypes has found a place for it.
func (c *Client) decodeResult(r *call, result any) error {
	if r.dynamic.types.result == nil {
		return nil
	}
	if self, ok := result.(into); ok {
		return asError(checkDecoded(self.decodeAll(&r.files, r.reply)))
	}
	plan, err := c.planFor(r.dynamic.types.result)
	if err != nil {
		return resultLost(err)
	}
	rest, err := plan.DecodeWith(&r.files, r.reply, reflect.ValueOf(result).Elem())
	return asError(checkDecoded(rest, err))
}

// checkDecoded: a reply is one value and nothing after it.
func checkDecoded(rest []byte, err error) *status.Error {
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow it", len(rest))
	}
	if err != nil {
		return resultLost(err)
	}
	return nil
}

func resultLost(err error) *status.Error {
	return status.Errorf(status.Internal, "the function ran, but its result cannot be decoded: %w; does its type fit the schema?", err).
		With(status.OutcomeExecutedResultLost)
}

// CallRaw calls a function of bytes to bytes without any encoding and appends
// its reply to dst, which may be nil. On error it returns dst as it was; what
// lies beyond its length may have changed. The payload is not used after
// CallRaw has returned.
func (c *Client) CallRaw(ctx context.Context, name string, payload, dst []byte) ([]byte, error) {
	return c.callBytes(ctx, wire.CodecRaw, nil, name, payload, dst)
}

// CallMessagePack is CallRaw for payloads in MessagePack that were encoded
// elsewhere: an array of the arguments. What it appends to dst is the result in
// MessagePack, as spec/schema.md has it.
func (c *Client) CallMessagePack(ctx context.Context, name string, arguments, dst []byte) ([]byte, error) {
	return c.callBytes(ctx, wire.CodecMessagePack, nil, name, arguments, dst)
}

// CallEncoded is CallMessagePack for arguments that were encoded by a description,
// and for results that will be decoded by it. Where the server has another it fails
// with ABORTED, not executed: then Describe the function again, encode and call anew.
func (c *Client) CallEncoded(ctx context.Context, by *Function, arguments, dst []byte) ([]byte, error) {
	return c.callBytes(ctx, wire.CodecMessagePack, by, by.Name, arguments, dst)
}

func (c *Client) callBytes(ctx context.Context, codec wire.Codec, by *Function, name string, payload, dst []byte) ([]byte, error) {
	r := c.take()
	defer c.give(r)
	if by != nil {
		r.dynamic.encodedBy, r.dynamicOf, r.usage = by, "", &r.dynamic
		r.dynamic.bound.Store(nil)
	}
	r.reply, r.replyStart = dst, len(dst)
	failure := c.exchange(ctx, r, wire.Request, codec, name, payload)
	reply := r.reply
	r.reply = nil
	if failure != nil {
		return dst, failure
	}
	return reply, nil
}

// take returns a call to use; give takes it back.
func (c *Client) take() *call {
	r := c.calls.Get().(*call)
	r.reply = r.buffer[:0]
	return r
}

func (c *Client) give(r *call) {
	if r.reply != nil {
		r.buffer = r.reply[:0]
	}
	r.reset()
	c.calls.Put(r)
}

// exchange sends a request, again if need be, and waits for the reply.
func (c *Client) exchange(ctx context.Context, r *call, frameType wire.FrameType, codec wire.Codec, name string, payload []byte) *status.Error {
	r.frameType, r.codec, r.name, r.payload = frameType, codec, name, payload
	failure := c.retry(ctx, r)
	if failure == nil && r.replyCodec != codec && frameType == wire.Request {
		return resultLost(fmt.Errorf("the server answered a request in %v with %v", codec, r.replyCodec))
	}
	return failure
}
