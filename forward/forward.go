// Package forward is what a proxy consists of: a server whose functions run somewhere else.
// The server registers a description and a Func (server.RegisterForwarded). The Func passes the
// request on as its caller has encoded it. Client.Forward of package client is such a Func:
//
//	f, err := c.Describe(ctx, "reserve")
//	err = s.RegisterForwarded(f.JSON(), c.Forward)
//
// Deadline and cancellation travel by the context, and the outcome of a call by its error.
package forward

import (
	"context"

	"github.com/nearcall/nearcall/intercept"
)

// A Request is a call as its caller has encoded it. It is valid until the Func returns, and
// must not be changed.
type Request struct {
	// Function is the name of the function.
	Function string
	// Codec says how the payload is encoded. The reply is encoded in the same way.
	Codec intercept.Codec
	// Check is that of the description by which the payload was encoded, or 0 if none was used.
	Check uint32
	// Payload holds the arguments.
	Payload []byte
	// Extensions are what travels from end to end: trace context, idempotency key and
	// metadata, as spec/wire-format.md encodes them.
	Extensions []byte
}

// A Reply is the answer to a Request.
type Reply struct {
	// Payload is dst with the encoded result behind it.
	Payload []byte
	// Extensions are the metadata of the answer, which an error may have as well.
	Extensions []byte
}

// A Func passes a request on and returns the answer. It appends the result to dst, which may be
// nil. An error should be a *status.Error whose outcome says what became of the function: that
// outcome is told to the caller as it is. An error without an outcome counts as unknown.
//
// A Func may be called by any number of goroutines, and must return when ctx ends.
type Func func(ctx context.Context, request *Request, dst []byte) (Reply, error)
