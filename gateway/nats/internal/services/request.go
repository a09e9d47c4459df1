package services

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

// The headers of a request. Clients of some languages change the case of letters, so it does not
// matter here.
const (
	headerTimeout     = "nearcall-timeout-ms"
	headerCall        = "nearcall-call"
	headerKey         = "nearcall-idempotency-key"
	headerTraceParent = "traceparent"
	headerMetadata    = "nearcall-metadata-"
)

// timeoutMsMax is as many milliseconds as a deadline may have on the wire.
const timeoutMsMax = 1<<32 - 1

// A request is what a message asks for.
type request struct {
	arguments []byte
	options   []client.CallOption
	name      string // "" if it cannot be cancelled by a message
}

func refuse(format string, args ...any) error {
	return status.Errorf(status.InvalidArgument, format, args...)
}

// parseRequest reads a message. It checks what the client library would not.
func parseRequest(m *nats.Msg) (*request, error) {
	r := &request{options: []client.CallOption{client.Timeout(client.DefaultTimeout)}}
	for header, values := range m.Header {
		for _, value := range values {
			if err := r.header(strings.ToLower(header), value); err != nil {
				return nil, err
			}
		}
	}
	var err error
	r.arguments, err = argumentsOf(m.Data)
	return r, err
}

// callBytesMax is how long the name of a call may be.
const callBytesMax = 64

func (r *request) header(name, value string) error {
	key, isMetadata := strings.CutPrefix(name, headerMetadata)
	switch {
	case isMetadata:
		r.options = append(r.options, client.Metadata(key, value))
	case name == headerTraceParent:
		r.options = append(r.options, client.TraceParent(value))
	case name == headerTimeout:
		ms, err := strconv.ParseUint(value, 10, 32)
		if err != nil || ms == 0 {
			return refuse("header Nearcall-Timeout-Ms is %q: write 1 to %d milliseconds, in digits", value, timeoutMsMax)
		}
		r.options = append(r.options, client.Timeout(time.Duration(ms)*time.Millisecond))
	case name == headerCall:
		if !isWord(value) || len(value) > callBytesMax {
			return refuse("header Nearcall-Call is %q: write at most %d letters, digits, - and _", value, callBytesMax)
		}
		r.name = value
	case name == headerKey:
		key, err := hex.DecodeString(value)
		if err != nil || len(key) != 16 {
			return refuse("header Nearcall-Idempotency-Key is %q: write 32 hexadecimal digits", value)
		}
		r.options = append(r.options, client.IdempotencyKey([16]byte(key)))
	}
	return nil
}

// argumentsOf returns the array of arguments of a body: the body if it is an array, the body as the
// only argument if it is another value, and no arguments if it is empty.
func argumentsOf(body []byte) ([]byte, error) {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return []byte("[]"), nil
	case body[0] == '[':
		return body, nil
	case !json.Valid(body):
		return nil, refuse(`the body is no JSON: write an array of the arguments, such as ["a", 1], or a single value, such as "a"`)
	}
	array := make([]byte, 0, len(body)+2)
	array = append(array, '[')
	array = append(array, body...)
	return append(array, ']'), nil
}
