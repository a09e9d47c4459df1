package client

import (
	"bytes"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// packsResult reports whether the place for the result of a call takes lists that travel as
// blocks.
func (c *core) packsResult(r *call) bool {
	t := r.dynamic.types.result
	if t == nil {
		return false
	}
	plan, err := c.planFor(t)
	return err == nil && plan.Packs() // whoever decodes the result reports the error
}

// unpack encodes a request anew for a server that does not take blocks. The call keeps that
// form, which every server takes. A request without blocks has it already.
func (c *connection) unpack(r *call) *status.Error {
	if r.codec != wire.CodecPacked || c.welcome.Accepted&wire.FeaturePackedLists != 0 {
		return nil
	}
	if !r.beside.Blocks {
		r.codec = wire.CodecMessagePack
		return nil
	}
	whole := r.payload
	if len(r.beside.Pieces) > 0 {
		whole = bytes.Join(r.beside.AppendParts(nil, r.payload), nil)
		r.beside.Drop()
	}
	// The array of arguments is not part of any value.
	plain, _, err := msgpack.AppendPlain(nil, whole, -1)
	if err != nil {
		return notExecuted(status.Internal, "the arguments cannot be written for a server that takes no packed lists: %w", err)
	}
	r.codec, r.payload = wire.CodecMessagePack, plain
	return nil
}
