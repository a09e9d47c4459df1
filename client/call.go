package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// Call calls a function and stores its result in what the pointer result points to. If
// result is nil, a *None or a *struct{}, the result is dropped. Fields of the result
// that its Go type does not have are ignored.
//
// The arguments are encoded by their Go types. Before anything is sent, these types and
// that of the result are compared with the description of the function, once for each
// schema of the server. A call that does not fit fails with INVALID_ARGUMENT and says
// where. What the type does not tell, such as the value in an any, is checked by the
// server before the function runs. An any is never taken for a duration.
func (c *Client) Call(ctx context.Context, name string, result any, args ...any) error {
	return c.call(ctx, name, nil, result, args)
}

// call calls a function. fixed says how the program uses it; if fixed is nil, the types
// of args and result do.
func (c *Client) call(ctx context.Context, name string, fixed *usage, result any, args []any) error {
	r := c.take()
	defer c.core.give(r)
	if failure := r.useTypes(name, result, args); failure != nil {
		return failure
	}
	if fixed != nil {
		r.usage = fixed
	}
	r.gather()
	request, by, failure := appendArguments(&r.beside, r.request[:0], args)
	if failure != nil && c.core.takesMore(ctx, r, failure) {
		request, by, failure = appendArguments(&r.beside, r.request[:0], args)
	}
	if failure != nil {
		return failure
	}
	if c.core.packsResult(r) {
		by = wire.CodecPacked
	}
	r.request = request
	c.core.prepareDecoding(r, result)
	if failure := c.core.exchange(ctx, r, wire.Request, by, name, request); failure != nil {
		return failure
	}
	if err := c.core.decodeResult(r, result); err != nil {
		return err
	}
	r.beside.Release()
	return nil
}

// gather lets long []byte of the arguments stay where they are until they are sent, unless
// somebody wants to see the payload as a whole.
func (c *call) gather() {
	c.beside.Gathers, c.beside.Blocks = len(c.options.interceptors) == 0, false
}

// keepReply lets the result keep a large reply if it is most of that.
func (c *call) keepReply() *codec.Beside {
	c.beside.KeptBytesMin, c.beside.Reuses = 0, c.options.reuseResult
	if cap(c.reply) > replyBytesKept {
		c.beside.Keep(cap(c.reply))
	}
	return &c.beside
}

// appendArguments appends the arguments, and returns the codec that they need.
func appendArguments(beside *codec.Beside, b []byte, args []any) (_ []byte, by wire.Codec, _ *status.Error) {
	by, b = wire.CodecMessagePack, msgpack.AppendListHeader(b, len(args))
	for i, arg := range args {
		var packs bool
		var err error
		if b, packs, err = codec.AppendPacking(beside, b, arg); err != nil {
			return nil, by, badArgument(i, err)
		}
		if packs {
			by = wire.CodecPacked
		}
	}
	return b, by, nil
}

func badArgument(index int, err error) *status.Error {
	code := status.InvalidArgument
	if errors.Is(err, msgpack.ErrTooLarge) {
		code = status.ResourceExhausted
	}
	return notExecuted(code, "argument %d: %w", index+1, err)
}

// useTypes notes the types that the program passes and where it wants the result. If
// the call was last used with the same types and the same function, nothing is prepared
// anew.
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

// prepareDecoding lets the reader decode a large result where it lies, if its memory is used
// again: then nothing is left to copy. An interceptor or observer that sees or counts the
// bytes still gets them.
func (c *core) prepareDecoding(r *call, result any) {
	if !r.options.reuseResult || r.dynamic.types.result == nil || len(r.options.interceptors) > 0 || c.config.observer != nil {
		return
	}
	plan, err := c.planFor(r.dynamic.types.result)
	if err != nil {
		return // decodeResult says so
	}
	place := reflect.ValueOf(result).Elem()
	r.decode = func(payload []byte) {
		r.beside.KeptBytesMin, r.beside.Reuses, r.decoded = 0, true, true
		r.decodeFailure = checkDecoded(plan.DecodeWith(&r.beside, payload, place))
	}
}

// decodeResult stores the result in the place that useTypes has found for it.
func (c *core) decodeResult(r *call, result any) error {
	if r.decoded {
		return asError(r.decodeFailure)
	}
	if r.dynamic.types.result == nil {
		return nil
	}
	plan, err := c.planFor(r.dynamic.types.result)
	if err != nil {
		return resultLost(err)
	}
	rest, err := plan.DecodeWith(r.keepReply(), r.reply, reflect.ValueOf(result).Elem())
	return asError(checkDecoded(rest, err))
}

// checkDecoded makes sure that a reply was one value, with nothing after it.
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

// CallRaw calls a function that takes and returns bytes, without any encoding. It
// appends the reply to dst, which may be nil, and returns the result. On error it
// returns dst unchanged, although the memory beyond its length may have been
// overwritten. The payload is not used after CallRaw has returned.
func (c *Client) CallRaw(ctx context.Context, name string, payload, dst []byte) ([]byte, error) {
	return c.callBytes(ctx, wire.CodecRaw, nil, name, payload, dst)
}

// CallMessagePack is CallRaw for arguments that are already encoded, as a MessagePack
// array. It appends the result to dst, in MessagePack as described in spec/schema.md.
func (c *Client) CallMessagePack(ctx context.Context, name string, arguments, dst []byte) ([]byte, error) {
	return c.callBytes(ctx, wire.CodecMessagePack, nil, name, arguments, dst)
}

// CallEncoded is CallMessagePack for arguments that were encoded by a description, and
// a result that will be decoded by it. If the server's function has another
// description, CallEncoded fails with ABORTED, not executed. Then call Describe, encode
// the arguments by the new description, and call again.
func (c *Client) CallEncoded(ctx context.Context, by *Function, arguments, dst []byte) ([]byte, error) {
	if by == nil || by.description == nil {
		return dst, notExecuted(status.InvalidArgument, "CallEncoded takes a description that Describe or Schema has returned")
	}
	return c.callBytes(ctx, wire.CodecMessagePack, by.description, by.Name, arguments, dst)
}

func (c *Client) callBytes(ctx context.Context, codec wire.Codec, by *schema.Function, name string, payload, dst []byte) ([]byte, error) {
	r := c.take()
	defer c.core.give(r)
	if by != nil {
		r.dynamic.encodedBy, r.dynamicOf, r.usage = by, "", &r.dynamic
		r.dynamic.bound.Store(nil)
	}
	r.reply, r.replyStart = dst, len(dst)
	failure := c.core.exchange(ctx, r, wire.Request, codec, name, payload)
	reply := r.reply
	r.reply = nil
	if failure != nil {
		return dst, failure
	}
	return reply, nil
}

// take returns a call to use with the options of this view; core.give takes it back.
func (c *Client) take() *call {
	r := c.core.take()
	r.options = c.options
	return r
}

func (c *core) take() *call {
	r := c.calls.Get().(*call)
	r.reply, r.options = r.buffer[:0], &c.options
	return r
}

func (c *core) give(r *call) {
	if r.reply != nil {
		r.buffer = r.reply[:0]
	}
	r.reset()
	c.calls.Put(r)
}

// exchange makes a call: it sends a request, several times if necessary, and waits for the
// reply.
func (c *core) exchange(ctx context.Context, r *call, frameType wire.FrameType, codec wire.Codec, name string, payload []byte) *status.Error {
	r.frameType, r.codec, r.name, r.payload = frameType, codec, name, payload
	if c.config.observer != nil && frameType == wire.Request {
		r.observeBegin(ctx)
	}
	failure := c.exchangeWithin(ctx, r)
	if failure != nil && frameType == wire.Request {
		c.counts.failures.Add(1)
	}
	if r.observed != nil {
		r.observeEnd(ctx, failure)
	}
	return failure
}

// exchangeWithin is exchange inside the interceptors.
func (c *core) exchangeWithin(ctx context.Context, r *call) (failure *status.Error) {
	if r.frameType == wire.Request && len(r.options.interceptors) > 0 {
		failure = c.intercept(ctx, r)
	} else {
		failure = c.retry(ctx, r)
	}
	if r.options.reply != nil {
		*r.options.reply = r.metadata
	}
	if failure == nil && r.replyCodec != r.codec && r.frameType == wire.Request {
		return resultLost(fmt.Errorf("the server answered a request in %v with %v", r.codec, r.replyCodec))
	}
	return failure
}
