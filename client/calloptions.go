package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A CallOption applies to the calls of a view, while an Option applies to the whole client.
// See Client.With.
type CallOption func(*callOptions)

// callOptions are those of a view. Immutable once it is made.
type callOptions struct {
	timeout      time.Duration
	attemptsMax  int
	backoffFirst time.Duration
	backoffMost  time.Duration
	waitForReady bool
	retryUnknown bool
	reuseResult  bool
	// extensions are those of each request, encoded.
	extensions []byte
	// reply is where the metadata of a reply go, nil: nowhere.
	reply *map[string][]string
	// interceptors are those of the client, and then those of the view.
	interceptors []intercept.Interceptor
	// failure is why no call can be made.
	failure *status.Error
}

const (
	backoffFirst = time.Millisecond
	backoffMost  = time.Second
)

func (c *config) callOptions() callOptions {
	return callOptions{timeout: c.timeout, attemptsMax: c.attemptsMax, backoffFirst: backoffFirst, backoffMost: backoffMost,
		interceptors: c.interceptors}
}

// With returns a view of the client: the same client with the same connection, whose calls
// have these options besides those of c. A view is cheap to make, costs its calls nothing,
// may be kept and shared like a client, and can be made of a view. Func1 and its like take
// the options of the view that they are given.
//
//	reports := c.With(client.Timeout(5*time.Minute), client.Metadata("tenant", "acme"))
//	total, err := client.Call[int64](ctx, reports, "report", 2026)
//
// An option with a value out of range makes every call of the view fail with
// INVALID_ARGUMENT, not executed.
func (c *Client) With(options ...CallOption) *Client {
	view := *c.options
	// What is appended must not be seen by others.
	view.extensions, view.interceptors = slices.Clip(view.extensions), slices.Clip(view.interceptors)
	for _, option := range options {
		option(&view)
	}
	return &Client{core: c.core, options: &view}
}

// Timeout is WithTimeout for the calls of a view.
func Timeout(timeout time.Duration) CallOption {
	return func(o *callOptions) { o.timeout = timeout; o.check(checkTimeout(timeout)) }
}

// Attempts is WithAttempts for the calls of a view.
func Attempts(attempts int) CallOption {
	return func(o *callOptions) { o.attemptsMax = attempts; o.check(checkAttempts(attempts)) }
}

// Backoff sets the mean pauses between attempts: the first, after which each is twice as
// long, up to the most. The default is one millisecond and one second.
func Backoff(first, most time.Duration) CallOption {
	return func(o *callOptions) {
		o.backoffFirst, o.backoffMost = first, most
		if first <= 0 || most < first {
			o.check(fmt.Errorf("pauses of %v to %v: the first must be positive, and the most no shorter", first, most))
		}
	}
}

// WaitForReady lets calls wait for a server that is not there, or is stopping, until their
// deadline, however many attempts that takes. Without it such a call fails with
// UNAVAILABLE after its attempts.
func WaitForReady() CallOption {
	return func(o *callOptions) { o.waitForReady = true }
}

// RetryUnknown allows sending a call again after the connection was lost and nobody knows
// whether the function ran, or when its result was lost. Server and caller both have to
// want that: the function must be registered as idempotent (server.Idempotent). A call of any
// other function fails with FAILED_PRECONDITION before anything is sent.
func RetryUnknown() CallOption {
	return func(o *callOptions) { o.retryUnknown = true }
}

// ReuseResult lets calls store a result that is a []byte or a list of numbers, or the fields of
// one that are, in the memory that the result has already, if that is large enough. So calls
// that bring large values again and again allocate nothing for them:
//
//	files := c.With(client.ReuseResult())
//	var file struct{ Name string; Data []byte }
//	for _, name := range names {
//		err := files.Call(ctx, "read", &file, name) // overwrites file.Data
//		...
//	}
//
// A call overwrites what the program has kept of a former result. Fields that the schema
// does not have stay as they are. The option concerns Client.Call, whose result is the program's.
func ReuseResult() CallOption {
	return func(o *callOptions) { o.reuseResult = true }
}

// Metadata adds a pair that travels with the request. Functions read it with
// server.CallFromContext, and interceptors with intercept.Call. A key may be added several times. It consists of
// lower-case letters, digits and any of "-_."; a value is any text or bytes. All pairs of
// a call share limit extension_bytes_max (4 KiB) with the function's name.
func Metadata(key, value string) CallOption {
	return func(o *callOptions) {
		if err := wire.CheckMetadata(key, value); err != nil {
			o.check(err)
			return
		}
		o.extensions = wire.AppendMetadata(o.extensions, key, value)
	}
}

// TraceParent sends a W3C trace context, such as
// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, with each call. If the view that
// this one is made of has a trace context, that one counts. An interceptor can send another
// one with each call: see intercept.Call.
func TraceParent(traceParent string) CallOption {
	return func(o *callOptions) {
		if err := wire.CheckTraceParent(traceParent); err != nil {
			o.check(err)
			return
		}
		o.extensions = wire.AppendExtension(o.extensions, wire.ExtensionTraceParent, traceParent)
	}
}

// IdempotencyKey sends a key of 16 bytes that names what is asked for, so that a function
// can recognise a repeated request. If the view that this one is made of has a key, that one
// counts.
func IdempotencyKey(key [16]byte) CallOption {
	return func(o *callOptions) {
		o.extensions = wire.AppendExtension(o.extensions, wire.ExtensionIdempotencyKey, string(key[:]))
	}
}

// ReplyMetadata stores the metadata of each reply in *metadata: a new map, or nil if the
// reply has none. The metadata of an error are stored, too. Calls that are made at the same
// time need a view each.
func ReplyMetadata(metadata *map[string][]string) CallOption {
	return func(o *callOptions) { o.reply = metadata }
}

// Intercept adds interceptors that run around the calls of a view, inside those of the client
// and of the view that it is made of.
func Intercept(interceptors ...intercept.Interceptor) CallOption {
	return func(o *callOptions) {
		if err := checkInterceptors(interceptors); err != nil {
			o.check(err)
			return
		}
		o.interceptors = append(o.interceptors, interceptors...)
	}
}

// check keeps the first failure.
func (o *callOptions) check(err error) {
	if err != nil && o.failure == nil {
		o.failure = notExecuted(status.InvalidArgument, "option of a call: %w", err)
	}
}

func checkTimeout(timeout time.Duration) error {
	if timeout <= 0 && timeout != NoTimeout {
		return fmt.Errorf("timeout %v: it must be positive, or client.NoTimeout", timeout)
	}
	return nil
}

func checkAttempts(attempts int) error {
	if attempts < 1 || attempts > wire.AttemptsMaxCeiling {
		return fmt.Errorf("%d attempts: limit attempts_max is 1 to %d", attempts, wire.AttemptsMaxCeiling)
	}
	return nil
}

func checkInterceptors(interceptors []intercept.Interceptor) error {
	if slices.ContainsFunc(interceptors, func(i intercept.Interceptor) bool { return i == nil }) {
		return errors.New("an interceptor is nil")
	}
	return nil
}

// takeMetadata reads the metadata of a reply where somebody asks for them.
func (r *call) takeMetadata(extensions []byte) {
	if len(extensions) > 0 && r.passed != nil {
		r.passed.answer = wire.AppendEndToEnd(nil, extensions)
	}
	if len(extensions) > 0 && (r.options.reply != nil || r.intercepted) {
		r.metadata = wire.Metadata(extensions)
	}
}
