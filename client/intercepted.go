package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// intercept makes a call inside its interceptors, within its deadline.
func (c *core) intercept(ctx context.Context, r *call) *status.Error {
	if _, bounded := ctx.Deadline(); !bounded && r.options.timeout != NoTimeout && r.options.failure == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.options.timeout)
		defer cancel()
	}
	r.intercepted, r.called, r.returned, r.callFailure, r.added = true, false, false, nil, r.added[:0]
	r.startNs = c.clock.Ns()
	r.latestNs = c.deadline(ctx, r)
	return r.settle(c.interceptAll(ctx, r))
}

// interceptAll runs the interceptors. It returns when none of them uses the call any more,
// not even in goroutines that they have left behind.
func (c *core) interceptAll(ctx context.Context, r *call) error {
	round := r.nexts.Begin()
	defer r.nexts.End()
	return c.interceptFrom(ctx, r, round, 0)
}

func (c *core) interceptFrom(ctx context.Context, r *call, round uint64, index int) error {
	if interceptors := r.options.interceptors; index < len(interceptors) {
		return interceptors[index](ctx, (*interceptedCall)(r), func(ctx context.Context) error {
			if !r.nexts.Enter(round) {
				return notExecuted(status.Internal, "an interceptor called next when its call was over")
			}
			defer r.nexts.Leave()
			return c.interceptFrom(ctx, r, round, index+1)
		})
	}
	if !r.nexts.Claim() {
		return notExecuted(status.Internal, "an interceptor called %s more than once", r.name)
	}
	r.called = true
	r.callFailure = c.retry(ctx, r)
	r.returned = true
	return asError(r.callFailure)
}

// settle makes of what interceptors returned what the caller is told. Only what happened says
// whether the function ran, and a call without a result cannot be made a success.
func (r *call) settle(err error) *status.Error {
	switch {
	case err == nil && r.returned:
		return r.callFailure
	case err == nil && r.called:
		err = status.Errorf(status.Internal, "%s panicked, and an interceptor did not say so", r.name)
	case err == nil:
		return notExecuted(status.Internal, "an interceptor of %s neither called it nor said why", r.name)
	}
	failure := *status.FromError(err)
	switch {
	case !r.called:
		failure.Outcome = status.OutcomeNotExecuted
	case !r.returned:
		failure.Outcome = status.OutcomeUnknown
	case r.callFailure != nil:
		failure.Outcome = r.callFailure.Outcome
	default:
		failure.Outcome = status.OutcomeExecuted
	}
	return &failure
}

// What interceptors see of a call. Each is the call itself under another name, so that
// showing it costs no allocation.
type (
	interceptedCall    call
	interceptedRequest call
	interceptedReply   call
)

// Side implements intercept.Call, as all that follow do.
func (*interceptedCall) Side() intercept.Side { return intercept.Caller }

func (*interceptedCall) Kind() intercept.Kind { return intercept.Function }

func (c *interceptedCall) Function() string { return c.name }

// Peer returns the endpoint that the call has used last. Before it has used one of several,
// the address stands for all of them.
func (c *interceptedCall) Peer() intercept.Peer {
	switch {
	case c.at != nil:
		return c.at.peer()
	case c.client.route == nil:
		return c.client.only.peer()
	}
	return intercept.Peer{Address: c.client.text}
}

// peer is the server as interceptors and observers see it.
func (e *endpoint) peer() intercept.Peer {
	return intercept.Peer{Local: e.address.Network == "unix", Address: e.address.String()}
}

func (c *interceptedCall) Request() intercept.Message { return (*interceptedRequest)(c) }

func (c *interceptedCall) Reply() intercept.Message { return (*interceptedReply)(c) }

func (c *interceptedCall) TraceParent() string {
	content, _ := wire.FindExtension((*interceptedRequest)(c).extensions(), wire.ExtensionTraceParent)
	return string(content)
}

// SetTraceParent gives the call options of its own, because those that it has are the view's.
func (c *interceptedCall) SetTraceParent(traceParent string) error {
	if err := wire.CheckTraceParent(traceParent); err != nil {
		return fmt.Errorf("nearcall: %w", err)
	}
	own := *c.options
	own.extensions = wire.AppendExtension(wire.WithoutExtension(own.extensions, wire.ExtensionTraceParent), wire.ExtensionTraceParent, traceParent)
	if total := len(own.extensions) + len(c.added); total > wire.ExtensionBytesMax {
		return fmt.Errorf("nearcall: the trace context would make %d bytes (at most %d in a request, limit extension_bytes_max, which is fixed)", total, wire.ExtensionBytesMax)
	}
	c.options = &own
	return nil
}

// AddMetadata refuses what cannot travel. Whether all of it has room beside the function's
// name is known when the request is made.
func (c *interceptedCall) AddMetadata(key, value string) error {
	if err := wire.CheckMetadata(key, value); err != nil {
		return fmt.Errorf("nearcall: %w", err)
	}
	added := wire.AppendMetadata(c.added, key, value)
	if total := len(c.options.extensions) + len(added); total > wire.ExtensionBytesMax {
		return fmt.Errorf("nearcall: metadata %q would make %d bytes (at most %d in a request, limit extension_bytes_max, which is fixed)", key, total, wire.ExtensionBytesMax)
	}
	c.added = added
	return nil
}

func (r *interceptedRequest) extensions() []byte {
	return slices.Concat(r.options.extensions, r.added)
}

// Metadata implements intercept.Message, as all that follow do.
func (r *interceptedRequest) Metadata() map[string][]string { return wire.Metadata(r.extensions()) }

func (r *interceptedRequest) Codec() intercept.Codec { return intercept.Codec(r.codec) }

func (r *interceptedRequest) Bytes() []byte { return r.payload }

func (r *interceptedRequest) Values() ([]any, error) { return codec.RequestValues(r.codec, r.payload) }

func (r *interceptedReply) Metadata() map[string][]string { return r.metadata }

func (r *interceptedReply) Codec() intercept.Codec { return intercept.Codec(r.codec) }

func (r *interceptedReply) Bytes() []byte {
	if !r.returned || r.callFailure != nil {
		return nil
	}
	return r.reply[r.replyStart:]
}

func (r *interceptedReply) Values() ([]any, error) {
	return codec.ReplyValues(r.codec, bytes.Clone(r.Bytes()))
}
