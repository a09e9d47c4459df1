package services_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/gateway/nats/internal/services"
	"github.com/nearcall/nearcall/status"
)

// Whatever a message holds, it is refused with words, or its arguments are an array of what the body
// is.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`[1, 2]`), "Nearcall-Timeout-Ms", "100")
	f.Add([]byte(`"a"`), "Nearcall-Call", "mine")
	f.Add([]byte(` {"a": 1} `), "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add([]byte("1, 2"), "Nearcall-Idempotency-Key", "000102030405060708090a0b0c0d0e0f")
	f.Add([]byte(""), "Nearcall-Metadata-a", "b")
	f.Fuzz(func(t *testing.T, body []byte, header, value string) {
		arguments, _, err := services.ParseRequest(&nats.Msg{Data: body, Header: nats.Header{header: {value}}})
		if err != nil {
			if !errors.Is(err, status.InvalidArgument) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if len(arguments) < 2 || arguments[0] != '[' {
			t.Fatalf("%q became %q", body, arguments)
		}
		// Arrays are left to the server, which reads them by the function's types.
		var values []json.RawMessage
		if json.Valid(body) && json.Unmarshal(arguments, &values) != nil {
			t.Fatalf("%q became %q", body, arguments)
		}
		if value := json.Valid(body) && body[0] == '"'; value && len(values) != 1 {
			t.Fatalf("%q became %d arguments", body, len(values))
		}
	})
}
