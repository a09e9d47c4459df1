package server

import (
	"fmt"
	"slices"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// These say what raises the limits that errors name.
var (
	raiseFrameBytes        = fmt.Sprintf("the server's option WithFrameBytesMax raises it to at most %d", wire.FrameBytesMaxCeiling)
	raiseCallersValueBytes = fmt.Sprintf("the caller's option client.WithValueBytesMax raises it to at most %d", wire.ValueBytesMaxCeiling)
	raiseCallersFrameBytes = fmt.Sprintf("the caller's option (frame_bytes_max, in Go client.WithFrameBytesMax) raises it to at most %d", wire.FrameBytesMaxCeiling)
)

// answer sends the one terminal frame of a call. For admitted see output.append; it is nil
// if the goroutine is the reader. The caller flushes.
func (c *connection) answer(e *execution, admitted func()) {
	bytes := e.resultBytes()
	failure := c.sendAnswer(e, admitted)
	if len(e.beside.Pieces) > 0 {
		e.beside.Drop()
		clear(e.parts)
	}
	if e.observed != nil {
		e.observeEnd(failure, bytes)
	}
}

// sendAnswer sends the answer of a call, and returns the failure that it told.
func (c *connection) sendAnswer(e *execution, admitted func()) *status.Error {
	extensions, bytes := e.context.takeReply(), e.resultBytes()
	if e.byName && e.function.elsewhere != nil && e.err == nil {
		extensions = c.withDirection(e.function, extensions, bytes)
	}
	stores := false
	if e.err == nil && len(extensions)+bytes > c.agreed.frameBytesMax {
		if stores = c.needsStore(e); !stores {
			e.err = c.resultTooLarge(e, len(extensions)+bytes)
		}
	}
	if e.err != nil {
		failure := status.FromError(e.err)
		c.fail(e.id, failure, extensions, admitted)
		return failure
	}
	if stores {
		return c.answerStored(e, extensions, bytes, admitted)
	}
	e.function.expect(bytes)
	header := wire.Header{Type: wire.Reply, Codec: e.codec, CallID: e.id, FunctionID: e.function.id}
	if len(e.files.Going()) > 0 {
		return c.answerWithDescriptors(e, &header, extensions, admitted)
	}
	header.ExtensionBytes = uint32(len(extensions))
	if !c.appendResult(e, &header, extensions, admitted) {
		lost := c.user.output.lost(e.function.name, int64(bytes))
		c.fail(e.id, lost, nil, nil)
		return lost
	}
	return nil
}

func (c *connection) resultTooLarge(e *execution, bytes int) *status.Error {
	accepts, limit, raise := c.agreed.frameBytesMax, "frame_bytes_max", raiseCallersFrameBytes
	if c.stores != nil && c.agreed.valueBytesMax > accepts {
		accepts, limit, raise = c.agreed.valueBytesMax, "value_bytes_max", raiseCallersValueBytes
	}
	return status.Errorf(status.ResourceExhausted, "the result of %s has %d bytes, the caller accepts %d (limit %s); %s",
		e.function.name, bytes, accepts, limit, raise).With(status.OutcomeExecutedResultLost)
}

// appendResult adds a REPLY to the output, and reports what output.append does.
func (c *connection) appendResult(e *execution, header *wire.Header, extensions []byte, admitted func()) bool {
	if len(e.beside.Pieces) == 0 {
		payload := behind(extensions, e.result)
		if r := e.reader; admitted == nil && r.memory != nil && c.output.putNow(header, payload, r.memory.end.Ready()) {
			r.mustLook = true
			return true
		}
		return c.output.append(header, payload, admitted)
	}
	e.parts = e.beside.AppendParts(append(e.parts[:0], extensions), e.result)
	return c.output.appendParts(header, e.parts, admitted)
}

// sendFailure sends an ERROR. Id 0 stands for the connection as a whole. The caller
// flushes.
func (c *connection) sendFailure(id uint64, failure *status.Error) { c.fail(id, failure, nil, nil) }

func (c *connection) fail(id uint64, failure *status.Error, extensions []byte, admitted func()) {
	header := wire.Header{
		Type: wire.Error, Codec: wire.CodecMessagePack, CallID: id,
		Status:         wire.StatusField(uint8(failure.Code), uint8(failure.Outcome)),
		ExtensionBytes: uint32(len(extensions)),
	}
	payload := codec.AppendFailure(slices.Clip(extensions), failure)
	// The caller would take a frame larger than it accepts for a breach of the
	// protocol.
	if len(payload) > c.agreed.frameBytesMax {
		payload = codec.AppendFailure(slices.Clip(extensions), withoutDetails(failure))
	}
	if !c.output.append(&header, payload, admitted) {
		// This frame is small enough to be waited for.
		header.ExtensionBytes = 0
		c.output.append(&header, codec.AppendFailure(nil, withoutDetails(failure)), nil)
	}
}

// behind returns the payload of a frame with its extensions before it. Metadata are seldom
// answered, so that it does not pay to write the two apart.
func behind(extensions, payload []byte) []byte {
	if len(extensions) == 0 {
		return payload
	}
	return append(slices.Clip(extensions), payload...)
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
