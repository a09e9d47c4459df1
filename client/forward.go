package client

import (
	"context"
	"slices"

	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// Forward passes a request on that somebody else has encoded, and appends the encoded result to
// dst, which may be nil. It is a forward.Func, so a server that passes calls of a function on is
// made with
//
//	f, err := c.Describe(ctx, "reserve")
//	err = s.RegisterForwarded(f.JSON(), c.Forward)
//
// One attempt is made, whatever the options of the view say: whether a call is made again is for
// its own caller to decide. Only ctx bounds the time. The metadata, trace context and
// idempotency key of the request travel with those of the view. If the request names the
// description by which it was encoded and the server's function has another one, Forward fails
// with ABORTED, not executed.
func (c *Client) Forward(ctx context.Context, request *forward.Request, dst []byte) (forward.Reply, error) {
	r := c.take()
	defer c.core.give(r)
	passed := &passedOn{options: *c.options, check: request.Check}
	passed.options.timeout, passed.options.attemptsMax = NoTimeout, 1
	passed.options.waitForReady, passed.options.retryUnknown = false, false
	passed.options.extensions = append(slices.Clip(passed.options.extensions), request.Extensions...)
	r.passed, r.options = passed, &passed.options
	// There may be blocks in the payload: unpack looks if the server takes none.
	codec := wire.Codec(request.Codec)
	r.beside.Blocks = codec == wire.CodecPacked
	r.reply, r.replyStart = dst, len(dst)
	failure := c.core.exchange(ctx, r, wire.Request, codec, request.Function, request.Payload)
	reply := forward.Reply{Payload: r.reply, Extensions: passed.answer}
	r.reply = nil
	if failure != nil {
		reply.Payload = dst
		return reply, failure
	}
	return reply, nil
}

// A passedOn is what a call has besides others if Forward makes it.
type passedOn struct {
	options callOptions
	check   uint32
	// answer are the extensions of the answer that are passed back.
	answer []byte
}

// putCheck says by which description the arguments of a request were encoded that is passed on.
func (c *connection) putCheck(r *call) *status.Error {
	if r.passed == nil || r.passed.check == 0 {
		return nil
	}
	if c.welcome.Accepted&wire.FeatureDescriptions == 0 {
		return notExecuted(status.Unimplemented, "the server at %s cannot check by which description the arguments of %s were encoded (feature descriptions): replace it by a newer one", c.endpoint.address, r.name)
	}
	r.header.Status = r.passed.check
	return nil
}

// CallJSON is CallRaw for arguments that are a JSON array. It appends the result to dst, as
// JSON. spec/schema.md says how values are written; the server converts them.
func (c *Client) CallJSON(ctx context.Context, name string, arguments, dst []byte) ([]byte, error) {
	return c.callBytes(ctx, wire.CodecJSON, nil, name, arguments, dst)
}
