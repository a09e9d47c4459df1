// Package intercept is what interceptors are written against. An interceptor runs around
// every call of a client, or of a server or some of its functions: it may log, count,
// limit, refuse, or add metadata. One that needs nothing of a side serves both:
//
//	func logged(ctx context.Context, call intercept.Call, next intercept.Next) error {
//		started := time.Now()
//		err := next(ctx)
//		slog.InfoContext(ctx, "call", "function", call.Function(), "took", time.Since(started), "error", err)
//		return err
//	}
//
//	c, err := client.New(address, client.WithInterceptor(logged))
//	s, err := server.New(server.WithInterceptor(logged))
//
// Where there are none, a call costs what it would cost without this package.
package intercept

import (
	"context"
	"fmt"
)

// An Interceptor runs around a call. It returns what next returns, or an error of its own:
// a *status.Error keeps its code, any other is UNKNOWN. Whether the function ran is known
// without its help, so an outcome that it sets counts for nothing. It may refuse a call by
// returning an error without calling next, and cannot make a success of a call that
// failed, since it has no result to give. It runs in the goroutine of its call, and must
// be safe for calls that are made at the same time.
type Interceptor func(ctx context.Context, call Call, next Next) error

// Next goes on with a call: with the next interceptor, and last with the call itself. It
// is to be called at most once; ctx is the interceptor's, or one derived from it.
type Next func(ctx context.Context) error

// A Call is one call as an interceptor sees it. It is valid until the interceptor has
// returned, and belongs to its goroutine.
//
// Methods may be added to the interface: a type that implements it for tests embeds it.
type Call interface {
	// Side tells whether the call is made or served here.
	Side() Side
	// Kind tells what is called. Interceptors that depend on it pass on what they do not
	// know.
	Kind() Kind
	// Function is the name of the function.
	Function() string
	// Peer is the other end.
	Peer() Peer
	// Request is what the caller sends. Its metadata are the caller's.
	Request() Message
	// Reply is what the function returned. Before next has returned, and of a call that
	// failed, it holds nothing but metadata.
	Reply() Message
	// TraceParent is the W3C trace context of the request, "" when it has none.
	TraceParent() string
	// AddMetadata adds a pair to what this side sends: on the caller's side to the
	// request, before next; on the server's to the answer, before and after it. It fails
	// where the key has other bytes than lower-case letters, digits and "-_.", or where
	// there is no room left (limit extension_bytes_max, 4 KiB in all).
	AddMetadata(key, value string) error
}

// A Side is one end of a call.
type Side uint8

const (
	// Caller makes the call.
	Caller Side = iota
	// Server runs the function.
	Server
)

// String returns "caller" or "server".
func (s Side) String() string {
	if s == Server {
		return "server"
	}
	return "caller"
}

// A Kind is what is called. There is one kind so far.
type Kind uint8

// Function is one request that is answered by one reply.
const Function Kind = 0

// A Message is a request or a reply.
type Message interface {
	// Metadata are the key-value pairs that travel along, nil when there are none. The
	// map is not to be changed.
	Metadata() map[string][]string
	// Codec says how the bytes are encoded.
	Codec() Codec
	// Bytes are what travels; not to be changed, and not to be kept beyond the call.
	Bytes() []byte
	// Values decodes the bytes: the arguments of a request, or the one value of a reply,
	// which is a []any where the function has several results. A value is nil, bool, int64,
	// uint64 (only above the largest int64), float64, string, []byte, time.Time, []any,
	// map[string]any or map[int64]any; of JSON it is what encoding/json makes of it, and of
	// raw bytes a []byte, not to be changed. It decodes anew each time, and fails where a
	// file is among the values.
	Values() ([]any, error)
}

// A Codec says how values are encoded. The numbers are those of the wire format.
type Codec uint8

const (
	// Raw is bytes as they are.
	Raw Codec = 0
	// MessagePack is MessagePack as spec/schema.md has it.
	MessagePack Codec = 1
	// JSON is used by the simple protocol.
	JSON Codec = 2
)

// A Peer is the other end of a connection. Immutable.
type Peer struct {
	// Local is set on local sockets, and for callers within the same process. A server
	// knows the ids of local callers only, from the kernel, as of the time of connecting; a
	// client does not tell those of its server. The process id is for logs only.
	Local     bool
	UserID    uint32
	GroupID   uint32
	ProcessID int32
	// Address is where the caller connected from, "" on most local sockets; to a client,
	// the address that it was made for.
	Address string
	// Software is what a caller calls itself, "" where it is not known.
	Software string
}

// String returns the peer for a log line.
func (p Peer) String() string {
	if p.ProcessID != 0 {
		return fmt.Sprintf("uid %d pid %d", p.UserID, p.ProcessID)
	}
	return p.Address
}
