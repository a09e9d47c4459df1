package server

import (
	"fmt"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// What raises a limit that an error names.
var (
	raiseFrameBytes        = fmt.Sprintf("the server's option WithFrameBytesMax raises it to at most %d", wire.FrameBytesMaxCeiling)
	raiseCallersFrameBytes = fmt.Sprintf("the caller's option (frame_bytes_max, in Go client.WithFrameBytesMax) raises it to at most %d", wire.FrameBytesMaxCeiling)
)

// answer sends the call's one terminal frame; admitted is for output.append.
// The caller flushes.
func (c *connection) answer(e *execution, admitted func()) {
	if e.err == nil && len(e.result) > c.frameBytesMax {
		e.err = status.Errorf(status.ResourceExhausted, "the result of %s has %d bytes, the caller accepts %d (limit frame_bytes_max); %s",
			e.function.name, len(e.result), c.frameBytesMax, raiseCallersFrameBytes).With(status.OutcomeExecutedResultLost)
	}
	if e.err != nil {
		c.fail(e.id, status.FromError(e.err), admitted)
		return
	}
	e.function.expect(len(e.result))
	header := wire.Header{Type: wire.Reply, Codec: e.codec, CallID: e.id, FunctionID: e.function.id}
	if len(e.files.Going()) > 0 {
		c.answerWithDescriptors(e, &header, admitted)
		return
	}
	if !c.out.append(&header, e.result, admitted) {
		c.fail(e.id, c.user.output.lost(e.function.name, int64(len(e.result))), nil)
	}
}

// sendFailure sends an ERROR; id 0 means the connection. The caller flushes.
func (c *connection) sendFailure(id uint64, failure *status.Error) { c.fail(id, failure, nil) }

func (c *connection) fail(id uint64, failure *status.Error, admitted func()) {
	header := wire.Header{
		Type: wire.Error, Codec: wire.CodecMessagePack, CallID: id,
		Status: wire.StatusField(uint8(failure.Code), uint8(failure.Outcome)),
	}
	payload := codec.AppendFailure(nil, failure)
	// The caller would take a frame larger than it accepts for a protocol error.
	if len(payload) > c.frameBytesMax {
		payload = codec.AppendFailure(nil, withoutDetails(failure))
	}
	if !c.out.append(&header, payload, admitted) {
		// This one is small enough to be waited for.
		c.out.append(&header, codec.AppendFailure(nil, withoutDetails(failure)), nil)
	}
}

// refusedf makes the error for a call that was not executed.
func refusedf(code status.Code, format string, args ...any) *status.Error {
	return status.Errorf(code, format, args...).With(status.OutcomeNotExecuted)
}

func withoutDetails(failure *status.Error) *status.Error {
	bare := *failure
	bare.Details = nil
	return &bare
}
