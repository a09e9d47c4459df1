package server

import (
	"context"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Call describes the call that a context belongs to. Immutable.
type Call struct {
	// Function is the name it was registered under.
	Function string
	// Peer is who calls.
	Peer Peer
	// TraceParent is the W3C trace context, "" when there is none.
	TraceParent string
	// Metadata are the caller's key-value pairs, nil when there are none.
	Metadata map[string][]string
}

// CallFromContext returns the call that ctx, or a context it was derived from,
// belongs to.
func CallFromContext(ctx context.Context) (*Call, bool) {
	call, ok := ctx.Value(callKey{}).(*Call)
	return call, ok
}

// An Interceptor runs around every call. It may refuse by returning an error
// without calling next, and look at what next returns. next runs the function
// and must be called at most once.
type Interceptor func(ctx context.Context, call *Call, next func(ctx context.Context) error) error

// parseMetadata fills in what a request's extensions tell about the call.
func (call *Call) parseMetadata(extensions []byte) {
	for len(extensions) > 0 {
		var kind wire.ExtensionType
		var content []byte
		kind, content, extensions = wire.NextExtension(extensions)
		switch kind {
		case wire.ExtensionTraceParent:
			call.TraceParent = string(content)
		case wire.ExtensionMetadata:
			call.addMetadata(content)
		}
	}
}

func (call *Call) addMetadata(content []byte) {
	for i, b := range content {
		if b == 0 {
			if call.Metadata == nil {
				call.Metadata = make(map[string][]string)
			}
			key := string(content[:i])
			call.Metadata[key] = append(call.Metadata[key], string(content[i+1:]))
			return
		}
	}
}
