// Package intercept is what interceptors are written against. An interceptor runs around
// every call of a client, or of a server or some of its functions. It may log, count,
// limit or refuse calls, and add metadata to them. An interceptor that needs nothing of one
// side serves both:
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
// The first interceptor is the outermost. Those of a client run around those of a view
// (client.Intercept). Those of a server run around those of a group of functions, and these
// around those of one function (server.Intercept).
//
// A call that has no interceptors costs what it would cost without this package.
package intercept

import (
	"context"
	"fmt"
	"strings"
)

// An Interceptor runs around a call. It runs in the goroutine of its call, and must be safe
// for calls that are made at the same time. Its ctx has the deadline of the call.
//
// It returns what next returns, or an error of its own: a *status.Error keeps its code, any
// other error has the code UNKNOWN. It refuses a call if it returns an error without calling
// next. It cannot make a success of a call that has failed, because it has no result to
// give. An outcome that it sets in an error has no effect, because it is known without its
// help whether the function ran.
//
// If it panics, the same happens as if a function does: on a server the caller gets
// INTERNAL and the stack is logged, and in a client the caller's goroutine panics. On a
// server, a panic inside next is the error that next returns, in whatever goroutine that is.
type Interceptor func(ctx context.Context, call Call, next Next) error

// Next goes on with a call: it runs the next interceptor and, after the last one, the call
// itself. Call it at most once, with the interceptor's context or one derived from it. A
// context with a later deadline does not give a client's call more time.
//
// An interceptor should not return before next has. If it leaves next running in another
// goroutine, the call ends when next has returned; after that next only returns an error.
type Next func(ctx context.Context) error

// A Call is one call as an interceptor sees it. It is valid until the interceptor has
// returned, and belongs to its goroutine.
//
// Methods may be added to this interface, so a type that implements it for a test should
// embed it.
type Call interface {
	// Side tells whether the call is made or served here.
	Side() Side
	// Kind tells what is called. An interceptor that depends on the kind should call next
	// for kinds that it does not know.
	Kind() Kind
	// Function is the name of the function.
	Function() string
	// Peer is the other end.
	Peer() Peer
	// Request is what the caller sends, with the caller's metadata.
	Request() Message
	// Reply is what the function has returned, with the metadata of the answer. It holds
	// nothing but metadata before next has returned, and if the call has failed.
	Reply() Message
	// TraceParent is the W3C trace context of the request, or "" if it has none.
	TraceParent() string
	// SetTraceParent sends a W3C trace context with the request, in place of the one that
	// it has, if it has one. Call it before next. It fails if the text is not a trace
	// context, and on the server's side, because an answer has none.
	SetTraceParent(traceParent string) error
	// AddMetadata adds a pair to what this side sends. On the caller's side that is the
	// request, so call it before next. On the server's side it is the answer, so it may
	// be called before and after next. A key consists of lower-case letters, digits and
	// any of "-_."; a value is any text or bytes. It fails if the key has other bytes, or
	// if there is no room left (limit extension_bytes_max, 4 KiB in all).
	AddMetadata(key, value string) error
}

// A Side is one end of a call.
type Side uint8

// These are the sides.
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

// Function is a call with one request, which is answered by one reply.
const Function Kind = 0

// A Message is a request or a reply.
type Message interface {
	// Metadata are the key-value pairs that travel along, or nil if there are none. The
	// map must not be changed.
	Metadata() map[string][]string
	// Codec says how the bytes are encoded.
	Codec() Codec
	// Bytes are the bytes that travel. They must not be changed, and must not be kept
	// beyond the call.
	Bytes() []byte
	// Values decodes the bytes, anew each time: the arguments of a request, or the one
	// value of a reply, which is a []any if the function has several results. It fails if
	// a file is among the values.
	//
	// A value of MessagePack is nil, bool, int64, uint64 (only above the largest int64),
	// float64, string, []byte, time.Time, []any, map[string]any or map[int64]any. A value
	// of JSON is what encoding/json decodes into an any. Raw bytes are one []byte, which
	// must not be changed.
	Values() ([]any, error)
}

// A Codec says how values are encoded. The numbers are those of the wire format.
type Codec uint8

// These are the codecs.
const (
	// Raw is bytes as they are.
	Raw Codec = 0
	// MessagePack is MessagePack as described in spec/schema.md.
	MessagePack Codec = 1
	// JSON is used by the simple protocol.
	JSON Codec = 2
	// Packed is MessagePack in which lists of numbers may be blocks, as described in
	// spec/schema.md. Values returns them as it does those of MessagePack.
	Packed Codec = 4
)

// A Peer is the other end of a connection. It does not change while the connection lives.
type Peer struct {
	// Local is set if the peer came over a local socket, or is in this process.
	Local bool
	// UserID, GroupID and ProcessID are known to servers only, and only for local peers.
	// They come from the kernel, and say what was true when the caller connected. Use the
	// process id for logs only: it may belong to another process by now.
	UserID    uint32
	GroupID   uint32
	ProcessID int32
	// Address is where a caller has connected from, which is "" on most local sockets. For
	// a client it is the address that the client was made for.
	Address string
	// Software is what the peer calls itself, or "" if that is not known.
	Software string
	// Identity is the first of Names, or "" if there are none.
	Identity string
	names    string // one in each line, so that peers can be compared
}

// Names returns the names in the certificate that a caller has shown over TLS, if the server
// trusts its authority: URIs, then DNS names, then mail addresses, and the common name if
// there is no other. A peer that has shown none has no names.
func (p Peer) Names() []string {
	if p.names == "" {
		return nil
	}
	return strings.Split(p.names, "\n")
}

// WithNames returns the peer with other names, for servers and for tests of interceptors.
// Names must not contain line breaks.
func (p Peer) WithNames(names ...string) Peer {
	p.Identity, p.names = "", strings.Join(names, "\n")
	if len(names) > 0 {
		p.Identity = names[0]
	}
	return p
}

// String returns the peer for a log line.
func (p Peer) String() string {
	if p.ProcessID != 0 {
		return fmt.Sprintf("uid %d pid %d", p.UserID, p.ProcessID)
	}
	if p.Identity != "" {
		return p.Identity + " at " + p.Address
	}
	return p.Address
}
