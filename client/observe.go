package client

import (
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// The functions of this file tell the observer what happens. They are called only if there
// is one, by the goroutine of the call, or by the one that opens or reads the connection,
// and never with a lock held.

// observeOpening tells of a connection that was opened, before its reader runs, or of an
// attempt that failed.
func (e *endpoint) observeOpening(made *connection, failure *status.Error) {
	observer, info := e.client.config.observer, &observe.Connection{Side: intercept.Caller, Peer: e.peer(), Transport: observe.TCP}
	switch e.address.Network {
	case "unix":
		info.Transport = observe.UnixSocket
	case "tls":
		info.Transport = observe.TLS
	}
	if failure != nil {
		if observer.ConnectionRefused != nil {
			observer.ConnectionRefused(info, failure)
		}
		return
	}
	info.ID, info.Peer.Software = e.client.connectionIDs.Add(1), made.welcome.Software
	made.observed.Store(info)
	if observer.ConnectionOpened != nil {
		observer.ConnectionOpened(info)
	}
}

// observeMove tells that the connection was given shared memory.
func (c *connection) observeMove() {
	moved := *c.observed.Load()
	moved.Transport = observe.SharedMemory
	c.observed.Store(&moved)
	if tell := c.client.config.observer.ConnectionMoved; tell != nil {
		tell(&moved)
	}
}

// observeEnd tells what ended the connection when so many calls were waiting.
func (c *connection) observeEnd(ending *ending, calls int) {
	tell := c.client.config.observer.ConnectionEnded
	if tell == nil {
		return
	}
	cause := ending.why.cause
	if calls == 0 && (errors.Is(cause, ErrClosed) || errors.Is(cause, errLeft) || isEOF(cause)) {
		tell(c.observed.Load(), nil)
		return
	}
	tell(c.observed.Load(), ending.failure(status.OutcomeNone))
}

func (r *call) observeBegin(ctx context.Context) {
	if r.observation == nil {
		r.observation = new(observe.Call)
	}
	r.observed = r.observation
	*r.observed = observe.Call{Side: intercept.Caller, Kind: intercept.Function, Function: r.name, RequestBytes: r.payloadBytes(), Began: time.Now()}
	if tell := r.client.config.observer.CallBegan; tell != nil {
		tell(ctx, r.observed)
	}
}

func (r *call) observeQueue(ctx context.Context) {
	if tell := r.client.config.observer.CallQueued; tell != nil {
		tell(ctx, r.observed)
	}
}

// observeStart tells that the request is on its way over a connection.
func (r *call) observeStart(ctx context.Context, c *connection) {
	r.observed.Attempt++
	r.observed.Connection, r.observed.Waited = c.observed.Load(), time.Since(r.observed.Began)
	if tell := r.client.config.observer.CallStarted; tell != nil {
		tell(ctx, r.observed)
	}
}

// observeRetry tells that another attempt follows one that failed.
func (r *call) observeRetry(ctx context.Context, failure *status.Error) {
	r.observed.Err = failure
	if tell := r.client.config.observer.CallRetried; tell != nil {
		tell(ctx, r.observed)
	}
	r.observed.Err = nil
}

func (r *call) observeEnd(ctx context.Context, failure *status.Error) {
	r.observed.Took, r.observed.Err = time.Since(r.observed.Began), failure
	if failure == nil {
		r.observed.ReplyBytes = len(r.reply) - r.replyStart
	}
	if tell := r.client.config.observer.CallEnded; tell != nil {
		tell(ctx, r.observed)
	}
	r.observed.State = nil
}
