package server

import (
	"errors"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
)

// What interceptors see of an execution. Each is the execution itself under another name,
// so that showing it costs no allocation.
type (
	interceptedCall    execution
	interceptedRequest execution
	interceptedReply   execution
)

func (c *interceptedCall) call() *Call { return c.context.theCall() }

// Side implements intercept.Call, as all that follow do.
func (*interceptedCall) Side() intercept.Side { return intercept.Server }

func (*interceptedCall) Kind() intercept.Kind { return intercept.Function }

func (c *interceptedCall) Function() string { return c.function.name }

func (c *interceptedCall) Peer() intercept.Peer { return c.call().Peer }

func (c *interceptedCall) Request() intercept.Message { return (*interceptedRequest)(c) }

func (c *interceptedCall) Reply() intercept.Message { return (*interceptedReply)(c) }

func (c *interceptedCall) TraceParent() string { return c.call().TraceParent }

func (*interceptedCall) SetTraceParent(string) error { return errTraceOfAnswer }

var errTraceOfAnswer = errors.New("nearcall: an answer has no trace context: only an interceptor of a client can set one")

func (c *interceptedCall) AddMetadata(key, value string) error {
	return c.call().AddReplyMetadata(key, value)
}

// Metadata implements intercept.Message, as all that follow do.
func (r *interceptedRequest) Metadata() map[string][]string { return r.context.theCall().Metadata }

func (r *interceptedRequest) Codec() intercept.Codec { return intercept.Codec(r.codec) }

func (r *interceptedRequest) Bytes() []byte { return r.payload }

func (r *interceptedRequest) Values() ([]any, error) {
	return codec.RequestValues(r.codec, r.payload)
}

func (r *interceptedReply) Metadata() map[string][]string { return r.context.theCall().replyMetadata() }

func (r *interceptedReply) Codec() intercept.Codec { return intercept.Codec(r.codec) }

func (r *interceptedReply) Bytes() []byte {
	if !r.returned || r.callError != nil {
		return nil
	}
	return r.result
}

func (r *interceptedReply) Values() ([]any, error) { return codec.ReplyValues(r.codec, r.Bytes()) }

// replyMetadata returns what was added to the answer so far.
func (call *Call) replyMetadata() map[string][]string {
	call.mu.Lock()
	defer call.mu.Unlock()
	return wire.Metadata(call.reply)
}
