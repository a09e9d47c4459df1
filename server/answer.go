package server

import (
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// answer sends the call's one terminal frame. The caller flushes.
func (c *connection) answer(e *execution) {
	if e.err == nil && len(e.result) > c.frameBytesMax {
		e.err = status.Errorf(status.ResourceExhausted, "the result of %s has %d bytes, the caller accepts %d (frame_bytes_max)",
			e.function.name, len(e.result), c.frameBytesMax).With(status.OutcomeExecutedResultLost)
	}
	if e.err != nil {
		c.sendFailure(e.id, status.FromError(e.err))
		return
	}
	header := wire.Header{Type: wire.Reply, Codec: e.codec, CallID: e.id, FunctionID: e.function.id}
	c.out.append(&header, e.result)
}

// sendFailure sends an ERROR; id 0 means the connection. The caller flushes.
func (c *connection) sendFailure(id uint64, failure *status.Error) {
	header := wire.Header{
		Type: wire.Error, Codec: wire.CodecMessagePack, CallID: id,
		Status: wire.StatusField(uint8(failure.Code), uint8(failure.Outcome)),
	}
	c.out.append(&header, codec.AppendFailure(nil, failure))
}

// refusedf makes the error for a call that was not executed.
func refusedf(code status.Code, format string, args ...any) *status.Error {
	return status.Errorf(code, format, args...).With(status.OutcomeNotExecuted)
}
