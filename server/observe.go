package server

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// The functions of this file tell the observer what happens. They are called only if there
// is one, and never with a lock held.

// An observedConnection is what the observer is told of a connection; it is empty until the
// connection is open. A call that runs apart may begin while the reader changes it.
type observedConnection struct {
	atomic.Pointer[observe.Connection]
}

func (c *connection) observation() *observe.Connection {
	info := &observe.Connection{Side: intercept.Server, Peer: c.peer, Transport: observe.TCP}
	switch {
	case c.peer.Local:
		info.Transport = observe.UnixSocket
	case c.isIdentified():
		info.Transport = observe.TLS
	}
	return info
}

// observeOpening tells that the connection is open, before its first call.
func (c *connection) observeOpening() {
	info := c.observation()
	info.ID = c.server.counters.observed.Add(1)
	c.observed.Store(info)
	if tell := c.server.config.observer.ConnectionOpened; tell != nil {
		tell(info)
	}
}

// observeRefusal tells that the peer was turned away, if that is why the connection ends: a
// peer that has gone before its hello was not.
func (c *connection) observeRefusal(reason error) {
	var failure *status.Error
	if tell := c.server.config.observer.ConnectionRefused; tell != nil && errors.As(reason, &failure) {
		tell(c.observation(), failure)
	}
}

// observeInProcess tells that the program which has loaded the library calls, which it does
// until it ends.
func (s *Server) observeInProcess(peer Peer) *observe.Connection {
	info := &observe.Connection{Side: intercept.Server, ID: s.counters.observed.Add(1), Peer: peer, Transport: observe.InProcess}
	if tell := s.config.observer.ConnectionOpened; tell != nil {
		tell(info)
	}
	return info
}

func (c *connection) observeMove() {
	moved := *c.observed.Load()
	moved.Transport = observe.SharedMemory
	c.observed.Store(&moved)
	if tell := c.server.config.observer.ConnectionMoved; tell != nil {
		tell(&moved)
	}
}

// observeEnd tells what ended the connection. Nothing of it runs any more.
func (c *connection) observeEnd(reason error) {
	info, tell := c.observed.Load(), c.server.config.observer.ConnectionEnded
	if info == nil || tell == nil {
		return
	}
	if errors.Is(reason, io.EOF) || errors.Is(reason, net.ErrClosed) {
		reason = nil
	}
	tell(info, reason)
}

// observeRefusedCall tells of a request that was refused before there was an execution. f
// is nil if the server has no such function.
func (c *connection) observeRefusedCall(f *function, payloadBytes int, refusal *status.Error) {
	observer, now := c.server.config.observer, time.Now()
	call := &observe.Call{Side: intercept.Server, Kind: intercept.Function, Connection: c.observed.Load(), Attempt: 1,
		RequestBytes: payloadBytes, Began: now}
	if f != nil {
		call.Function = f.name
	}
	if observer.CallBegan != nil {
		observer.CallBegan(c.service.values, call)
	}
	call.Err, call.Took = refusal, time.Since(now)
	if observer.CallEnded != nil {
		observer.CallEnded(c.service.values, call)
	}
}

// observeBegin tells that a call has come. The call of a reader uses its memory anew.
func (e *execution) observeBegin(over *observe.Connection) {
	if e.observed == nil {
		e.observed = new(observe.Call)
	}
	*e.observed = observe.Call{Side: intercept.Server, Kind: intercept.Function, Function: e.function.name, Connection: over, Attempt: 1,
		RequestBytes: len(e.payload) + e.stored.size(), Began: time.Now()}
	if tell := e.server.config.observer.CallBegan; tell != nil {
		tell(e.observedContext(), e.observed)
	}
}

// observedContext is what the observer is given, which makes no context.
func (e *execution) observedContext() context.Context {
	if e.context != nil {
		return e.context
	}
	return context.Background()
}

func (e *execution) observeQueue() {
	if tell := e.server.config.observer.CallQueued; tell != nil {
		tell(e.observedContext(), e.observed)
	}
}

func (e *execution) observeStart() {
	e.observed.Waited = time.Since(e.observed.Began)
	if tell := e.server.config.observer.CallStarted; tell != nil {
		tell(e.observedContext(), e.observed)
	}
}

// observeEnd tells with what the call is answered: a failure, or a result of so many bytes.
func (e *execution) observeEnd(failure *status.Error, bytes int) {
	e.observed.Took, e.observed.Err = time.Since(e.observed.Began), failure
	if failure == nil {
		e.observed.ReplyBytes = bytes
	}
	if tell := e.server.config.observer.CallEnded; tell != nil {
		tell(e.observedContext(), e.observed)
	}
	e.observed.State = nil
}
