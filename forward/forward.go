// Package forward describes calls that are passed on as they came: a server takes them for
// functions that run elsewhere, and a client sends them there. Neither decodes a value.
package forward

import (
	"context"

	"github.com/nearcall/nearcall/intercept"
)

// A Request is a call as its caller has encoded it.
type Request struct {
	// Function is the function's name.
	Function string
	// Codec says how Payload is encoded.
	Codec intercept.Codec
	// Check is that of the description by which Payload was encoded, and 0 if it was by none.
	Check uint32
	// Payload holds the arguments. It is valid until the call ends.
	Payload []byte
	// Extensions are trace context, idempotency key and metadata, in the form of the wire.
	// They are valid until the call ends.
	Extensions []byte
}

// A Reply is what a forwarded call returned, as the server has encoded it: in the codec of
// the request.
type Reply struct {
	Payload []byte
	// Extensions is metadata, in the form of the wire.
	Extensions []byte
}

// A Func passes a call on. The payload of its reply may lie in dst, which it may also ignore.
// Its error is a *status.Error whose outcome says whether the function has run. It may be
// called by several goroutines at once.
type Func func(ctx context.Context, request *Request, dst []byte) (Reply, error)
