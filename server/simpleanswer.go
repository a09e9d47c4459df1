package server

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/status"
)

const (
	// The number of bytes in an answer besides its result.
	simpleAnswerBytes = len(simpleAnswerStart) + len(simpleAnswerEnd)
	simpleAnswerStart = `{"ok":true,"r":`
	simpleAnswerEnd   = `}`
)

type simpleFailure struct {
	Code    status.Code `json:"code"`
	Name    string      `json:"name"`
	Message string      `json:"message"`
	Outcome string      `json:"outcome"`
	Details [][2]any    `json:"details,omitempty"`
}

// answerSimple answers a call with what it returned. The caller flushes.
func (e *execution) answerSimple(result []byte, err error) {
	if e.observed != nil {
		e.observeEnd(status.FromError(err), len(result))
	}
	if err == nil {
		e.function.expect(len(result))
	}
	e.connection.answerSimple(result, err)
}

// answerSimple puts one answer behind those before it. The caller flushes.
func (c *connection) answerSimple(result []byte, err error) {
	if err == nil && len(result) > c.agreed.frameBytesMax-simpleAnswerBytes {
		err = status.Errorf(status.ResourceExhausted, "the result has %d bytes (at most %d, limit frame_bytes_max); %s", len(result), c.agreed.frameBytesMax, raiseFrameBytes).With(status.OutcomeExecutedResultLost)
	}
	bytes, added := 0, false
	if err == nil {
		bytes = simpleAnswerBytes + len(result)
		start := append(binary.BigEndian.AppendUint32(make([]byte, 0, simpleHeaderBytes+len(simpleAnswerStart)), uint32(bytes)), simpleAnswerStart...)
		added = c.output.raw(start, result, []byte(simpleAnswerEnd))
	} else {
		bytes, added = c.failSimple(status.FromError(err))
	}
	if !added {
		c.failSimple(withoutDetails(c.user.output.lost("the call", int64(bytes))))
	}
}

// failSimple adds the answer of a call that has failed, and returns its size.
func (c *connection) failSimple(failure *status.Error) (bytes int, added bool) {
	body := appendSimpleFailure(nil, failure)
	if len(body) > c.server.config.frameBytesMax {
		body = appendSimpleFailure(nil, withoutDetails(failure))
	}
	return len(body), c.output.raw(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body)
}

func appendSimpleFailure(dst []byte, failure *status.Error) []byte {
	told := simpleFailure{Code: failure.Code, Name: failure.Code.String(), Message: codec.CutMessage(failure.Message), Outcome: failure.Outcome.String()}
	for _, detail := range failure.Details {
		told.Details = append(told.Details, [2]any{detail.Type, json.RawMessage(codec.AppendDetailJSON(nil, detail.Value))})
	}
	text, _ := json.Marshal(told)
	return fmt.Appendf(dst, `{"ok":false,"e":%s}`, text)
}
