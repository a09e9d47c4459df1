package services

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/nearcall/nearcall/status"
)

// answerResult sends the result of a call, or an error if the engine does not take it.
func (e *endpoint) answerResult(m *nats.Msg, result []byte, metadata map[string][]string) *status.Error {
	answer := &nats.Msg{Data: result, Header: headersOf(metadata)}
	if most := e.service.config.Connection.MaxPayload(); int64(sizeOf(answer)) > most {
		failure := status.Errorf(status.ResourceExhausted, "the result has %d bytes; this engine takes %d in a message (max_payload)", len(result), most).With(status.OutcomeExecutedResultLost)
		failure.Details = []status.Detail{{Type: limitDetail, Value: "max_payload"}}
		e.answerError(m, failure, nil)
		return failure
	}
	e.send(m, answer)
	return nil
}

// answerError sends an error as micro does, and its code, outcome and details in the body.
func (e *endpoint) answerError(m *nats.Msg, failure *status.Error, metadata map[string][]string) {
	answer := &nats.Msg{Data: errorBody(failure, true), Header: headersOf(metadata)}
	if answer.Header == nil {
		answer.Header = nats.Header{}
	}
	message := oneLine(failure.Message)
	if message == "" {
		message = failure.Code.String()
	}
	answer.Header.Set(micro.ErrorHeader, message)
	answer.Header.Set(micro.ErrorCodeHeader, errorNumber(failure.Code))
	if int64(sizeOf(answer)) > e.service.config.Connection.MaxPayload() {
		answer.Header = nats.Header{micro.ErrorHeader: {message}, micro.ErrorCodeHeader: {errorNumber(failure.Code)}}
		answer.Data = errorBody(failure, false)
	}
	e.send(m, answer)
}

// send answers a request. If it cannot, the one who asked waits until its own deadline, as with any
// message that is lost.
func (e *endpoint) send(m, answer *nats.Msg) {
	answer.Subject = m.Reply
	if err := e.service.config.Connection.PublishMsg(answer); err != nil {
		e.service.config.Logger.Debug("an answer was not sent to NATS", "subject", m.Subject, "error", err)
	}
}

// sizeOf returns how much of the engine's limit a message takes, at most.
func sizeOf(m *nats.Msg) int {
	const version, line = len("NATS/1.0\r\n\r\n"), len(": \r\n")
	size := version + len(m.Data)
	for name, values := range m.Header {
		for _, value := range values {
			size += len(name) + len(value) + line
		}
	}
	return size
}

// headersOf returns the metadata of an answer as headers. Values that no header can hold are left
// out: those with control characters, and those that begin or end with a space.
func headersOf(metadata map[string][]string) nats.Header {
	var headers nats.Header
	for key, values := range metadata {
		for _, value := range values {
			if strings.TrimSpace(value) != value || strings.ContainsFunc(value, isControl) {
				continue
			}
			if headers == nil {
				headers = nats.Header{}
			}
			headers.Add("Nearcall-Metadata-"+key, value)
		}
	}
	return headers
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }

// messageBytesMax is as much of a message as a header repeats. The body has all of it.
const messageBytesMax = 512

// oneLine makes a text the value of a header.
func oneLine(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, text))
	if len(text) <= messageBytesMax {
		return text
	}
	end := messageBytesMax
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// An errorObject is the body of an error.
type errorObject struct {
	Code    string      `json:"code"`
	Outcome string      `json:"outcome"`
	Message string      `json:"message"`
	Details []errorNote `json:"details,omitempty"`
}

type errorNote struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

func errorBody(failure *status.Error, details bool) []byte {
	object := errorObject{Code: failure.Code.String(), Outcome: failure.Outcome.String(), Message: failure.Message}
	for _, detail := range failure.Details {
		value, err := json.Marshal(detail.Value)
		if err != nil {
			// JSON has no maps with keys that are numbers, for example.
			value, _ = json.Marshal(fmt.Sprint(detail.Value))
		}
		if details {
			object.Details = append(object.Details, errorNote{detail.Type, value})
		}
	}
	body, _ := json.Marshal(object) // Texts and what was marshalled before cannot fail.
	return body
}

// numbers are those of HTTP that come closest to the codes. Tools of NATS show them.
var numbers = map[status.Code]int{
	status.InvalidArgument: 400, status.FailedPrecondition: 400, status.OutOfRange: 400,
	status.Unauthenticated: 401, status.PermissionDenied: 403, status.NotFound: 404, status.DeadlineExceeded: 408,
	status.AlreadyExists: 409, status.Aborted: 409, status.ResourceExhausted: 429, status.Cancelled: 499,
	status.Unknown: 500, status.Internal: 500, status.DataLoss: 500, status.Unimplemented: 501, status.Unavailable: 503,
}

func errorNumber(code status.Code) string {
	if number, known := numbers[code]; known {
		return strconv.Itoa(number)
	}
	return "500"
}
