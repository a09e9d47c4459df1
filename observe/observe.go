// Package observe is what observers of clients and servers are written against. An
// Observer has functions that are called when something happens: to a connection, or to a
// call. Those that are nil are not called. One observer serves both sides:
//
//	observer := &observe.Observer{
//		CallEnded: func(_ context.Context, call *observe.Call) {
//			seconds.WithLabelValues(call.Side.String(), call.Function, call.Code().String()).Observe(call.Took.Seconds())
//		},
//	}
//	c, err := client.New(address, client.WithObserver(observer))
//	s, err := server.New(server.WithObserver(observer))
//
// An observer watches and changes nothing: what must change a call (refuse it, add
// metadata, replace its context) is an interceptor of package intercept. Metrics need
// observers and the Statistics of client and server. Tracing needs an interceptor, which
// begins a span, derives a context from it, and sends the trace context
// (intercept.Call.SetTraceParent).
//
// Without an observer, a call costs one comparison for each place at which one could be
// told, and no allocation.
package observe

import (
	"context"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/status"
)

// An Observer holds the functions that are called. Further ones may be added, so name the
// fields that you set. Do not change an Observer that is in use.
//
// The functions run in the goroutine to which the event happens. On a server that is often
// the goroutine that reads a connection. So a function must not wait, must not call the
// client or server that it observes, and must be safe for events that happen at the same
// time. A panic in it ends the program.
type Observer struct {
	// ConnectionOpened is called when both sides have agreed on a connection. A client
	// opens its connection with its first call.
	ConnectionOpened func(connection *Connection)
	// ConnectionRefused is called in place of ConnectionOpened: on a client when nobody
	// answered, or when the server was not accepted or refused; on a server when it turned
	// a caller away. The reason is a *status.Error.
	ConnectionRefused func(connection *Connection, reason error)
	// ConnectionMoved is called when a connection is given shared memory. The connection is
	// the same, and has another Transport.
	ConnectionMoved func(connection *Connection)
	// ConnectionEnded is called once for each connection that was opened. The reason says
	// what ended it. It is nil if the end was in order: the peer has closed the connection
	// and waited for nothing, or this side was closed or shut down.
	ConnectionEnded func(connection *Connection, reason error)

	// CallBegan is called before anything is done for a call: on a client before its
	// interceptors run, on a server once the request has arrived. A client encodes the
	// arguments before that, so a call whose arguments cannot be encoded does not begin.
	CallBegan func(ctx context.Context, call *Call)
	// CallQueued is called if the call has to wait for its turn: on a client when as many
	// calls are in flight as the server allows, or when the server does not read; on a
	// server when as many calls of the function run as its registration allows, or when
	// there is no room for the reply. It may be called more than once for a call.
	CallQueued func(ctx context.Context, call *Call)
	// CallStarted is called on a client when the request is on its way, for each attempt,
	// and on a server just before the function and its interceptors run.
	CallStarted func(ctx context.Context, call *Call)
	// CallRetried is called on a client when an attempt has failed, with the error in Err,
	// and another one will be made.
	CallRetried func(ctx context.Context, call *Call)
	// CallEnded is called once for each call that began: on a client just before the caller
	// gets its result, on a server when the answer is ready to be sent. A function that has
	// exceeded its maximum run time may go on after that. A client decodes the result
	// afterwards: if that fails, the caller gets an error, and the observer was told of a
	// success.
	CallEnded func(ctx context.Context, call *Call)
}

// The values of Connection.Transport.
const (
	UnixSocket   = "unix socket"
	TCP          = "tcp"
	TLS          = "tls"
	SharedMemory = "shared memory"
	// InProcess is the transport of calls from the program that has loaded the server as a
	// library.
	InProcess = "in process"
)

// A Connection is one connection as an observer sees it. It does not change and may be
// kept.
type Connection struct {
	// Side tells at which end the observer is.
	Side intercept.Side
	// ID tells connections of one client or server apart. It is 0 if the connection was
	// refused.
	ID uint64
	// Peer is the other end.
	Peer intercept.Peer
	// Transport is how calls travel. With shared memory, frames that are too large for it
	// still take the socket.
	Transport string
}

// A Call is one call as an observer sees it, from CallBegan to CallEnded the same one. It
// is filled as the call goes on, and valid until CallEnded has returned: do not keep it.
type Call struct {
	// Side tells whether the call is made or served here.
	Side intercept.Side
	// Kind tells what is called.
	Kind intercept.Kind
	// Function is the name of the function, as the caller wrote it. On a server that has no
	// such function it is "", so that no caller can make up names for metrics.
	Function string
	// Connection is the connection that the call uses. On a client it is nil before the
	// first request was sent, and that of the last attempt afterwards.
	Connection *Connection
	// Attempt counts the requests that were sent for the call. On a server it is always 1.
	Attempt int
	// RequestBytes and ReplyBytes are the sizes of the encoded arguments and of the encoded
	// result, which is 0 before there is one, and for a call that has failed.
	RequestBytes, ReplyBytes int
	// Began is when the call began. Waited is the time from then until the request was on
	// its way or the function began to run, the last time that CallStarted was called. Took
	// is the time from then to CallEnded.
	Began        time.Time
	Waited, Took time.Duration
	// Err is how the call, or in CallRetried its last attempt, failed; nil for success. Its
	// Outcome says whether the function ran.
	Err *status.Error
	// State belongs to the observer, which may keep there what its next function needs,
	// such as a span that has begun. It is nil when the call begins. Observers that are
	// joined have one each.
	State any
}

// Code returns the code of Err, or status.OK.
func (c *Call) Code() status.Code {
	if c.Err == nil {
		return status.OK
	}
	return c.Err.Code
}

// Outcome returns the outcome of Err, or status.OutcomeNone.
func (c *Call) Outcome() status.Outcome {
	if c.Err == nil {
		return status.OutcomeNone
	}
	return c.Err.Outcome
}
