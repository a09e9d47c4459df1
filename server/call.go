package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Call describes the call that a context belongs to. Its fields must not be changed; they
// may be read, and its methods called, by any number of goroutines.
type Call struct {
	// Function is the name under which the function was registered.
	Function string
	// Peer is the caller.
	Peer Peer
	// TraceParent is the W3C trace context, or "" if there is none.
	TraceParent string
	// IdempotencyKey names what is asked for, so that a repeated request can be recognised.
	// It has 16 bytes, or is nil if there is none.
	IdempotencyKey []byte
	// Metadata are the caller's key-value pairs, or nil if there are none.
	Metadata map[string][]string

	// serving is the context of Serve, which knows when that ends; nil in a library.
	serving context.Context
	// reserved are bytes of the answer's extensions that are not for metadata.
	reserved int

	// mu protects what follows.
	mu sync.Mutex
	// reply are the extensions of the answer.
	reply []byte
	// answered: what is added now is too late.
	answered bool
}

// ErrAnswered is returned by AddReplyMetadata when the call has been answered.
var ErrAnswered = errors.New("nearcall: the call has been answered")

// AddReplyMetadata adds a pair that travels with the answer, which may be a result or an
// error. A key may be added several times. It consists of lower-case letters, digits and any
// of "-_."; a value is any text or bytes. All pairs of an answer share limit
// extension_bytes_max (4 KiB), of which 20 bytes are for the server if the answer may lie in a
// memory file (WithValueBytesMax): a pair for which there is no room is not added, and the error
// says so. After the function and its interceptors have returned, AddReplyMetadata fails with
// ErrAnswered. Callers of the simple protocol never see metadata.
func (call *Call) AddReplyMetadata(key, value string) error {
	if err := wire.CheckMetadata(key, value); err != nil {
		return fmt.Errorf("nearcall: %w", err)
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.answered {
		return ErrAnswered
	}
	reply := wire.AppendMetadata(call.reply, key, value)
	if most := wire.ExtensionBytesMax - call.reserved; len(reply) > most {
		return fmt.Errorf("nearcall: metadata %q would make %d bytes (at most %d in an answer, limit extension_bytes_max, which is fixed)", key, len(reply), most)
	}
	call.reply = reply
	return nil
}

// takeReply returns the extensions of the answer, which nothing is added to any more.
func (call *Call) takeReply() []byte {
	call.mu.Lock()
	defer call.mu.Unlock()
	call.answered = true
	return call.reply
}

// drainingKey is the key of a channel in the contexts of functions.
type drainingKey struct{}

// Draining returns a channel that is closed when the server stops: when the context of Serve
// ends, and at Shutdown or Close. The context of the call does not end then, because calls
// that were accepted are answered. A function that waits for long, such as for news, should
// wait for this channel too, and return when it is closed:
//
//	select {
//	case news := <-feed:
//		return news, nil
//	case <-call.Draining():
//		return nil, status.Errorf(status.Unavailable, "the server stops; ask the next one")
//	case <-ctx.Done():
//		return nil, ctx.Err()
//	}
//
// The channel is nil if call is nil, as it is for a function that a test calls without a server, and for
// calls within the process of a library (see package embed).
func (call *Call) Draining() <-chan struct{} {
	if call == nil || call.serving == nil {
		return nil
	}
	draining, _ := call.serving.Value(drainingKey{}).(<-chan struct{})
	return draining
}

// CallFromContext returns the call that ctx, or a context it was derived from, belongs
// to. It reports false if ctx does not belong to a call.
func CallFromContext(ctx context.Context) (*Call, bool) {
	call, ok := ctx.Value(callKey{}).(*Call)
	return call, ok
}

// parseMetadata fills in what a request's extensions tell about the call.
func (call *Call) parseMetadata(extensions []byte) {
	for len(extensions) > 0 {
		var kind wire.ExtensionType
		var content []byte
		kind, content, extensions = wire.NextExtension(extensions)
		switch kind {
		case wire.ExtensionTraceParent:
			call.TraceParent = cmp.Or(call.TraceParent, string(content))
		case wire.ExtensionIdempotencyKey:
			if call.IdempotencyKey == nil && len(content) == idempotencyKeyBytes {
				call.IdempotencyKey = bytes.Clone(content)
			}
		case wire.ExtensionMetadata:
			call.Metadata = wire.AddMetadata(call.Metadata, content)
		}
	}
}

// tellOfCall reports whether a request's extensions have anything for parseMetadata.
func tellOfCall(extensions []byte) bool {
	for len(extensions) > 0 {
		var kind wire.ExtensionType
		kind, _, extensions = wire.NextExtension(extensions)
		switch kind {
		case wire.ExtensionTraceParent, wire.ExtensionIdempotencyKey, wire.ExtensionMetadata:
			return true
		}
	}
	return false
}

const idempotencyKeyBytes = 16
