package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A callContext is the context of one call. It starts no timer and makes no channel until
// somebody asks for one: most functions never do. From then on a context of package
// context stands behind it, so that what is derived from it needs no goroutine and causes
// are known. Its values are those of the context that Serve was given.
type callContext struct {
	function string
	peer     *Peer
	deadline time.Time       // zero: none; its time of day may be that of a clock since changed
	values   context.Context // nil: none

	// ended is written under mu and read without: functions that loop ask often. Where
	// there is an inner context, that one counts.
	ended atomic.Uint32 // why it ended, as below
	inner atomic.Pointer[innerContext]

	// call is made when somebody asks for it, or by what came with the request.
	call atomic.Pointer[Call]

	// mu protects what follows, and the making of inner and call.
	mu    sync.Mutex
	cause error     // why it was canceled; nil stands for context.Canceled
	dated time.Time // the deadline with the time of day; zero until somebody asks
}

// An innerContext is what package context has made for a call.
type innerContext struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the deadline's timer
}

// Why a context has ended; not yet is 0.
const (
	endedCanceled uint32 = 1 + iota
	endedDeadline
)

// contextsAtOnceMax is how many contexts are allocated together at most: each is used
// for one call only, because a function may keep it, but they need not be made one by
// one.
const contextsAtOnceMax = 16

// A contextSupply has contexts that were not used yet, of twice as many each time: who
// calls once needs one.
type contextSupply struct {
	unused []callContext
	atOnce int
}

func (s *contextSupply) next() *callContext {
	if len(s.unused) == 0 {
		s.atOnce = min(max(1, 2*s.atOnce), contextsAtOnceMax)
		s.unused = make([]callContext, s.atOnce)
	}
	made := &s.unused[0]
	s.unused = s.unused[1:]
	return made
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dateLocked(), !c.deadline.IsZero()
}

// dateLocked returns the deadline with the time of day that it has by the clock of now.
func (c *callContext) dateLocked() time.Time {
	if c.dated.IsZero() && !c.deadline.IsZero() {
		now := time.Now()
		c.dated = now.Add(c.deadline.Sub(now))
	}
	return c.dated
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} { return c.full().Done() }

// Err implements context.Context.
func (c *callContext) Err() error {
	if inner := c.inner.Load(); inner != nil {
		return inner.Err()
	}
	if c.ended.Load() == 0 && !c.deadline.IsZero() && time.Until(c.deadline) <= 0 {
		c.expire()
	}
	switch c.ended.Load() {
	case endedCanceled:
		return context.Canceled
	case endedDeadline:
		return context.DeadlineExceeded
	}
	return nil
}

// expire notes that the deadline has passed, so that what Err has said once stays so.
func (c *callContext) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Load() == 0 {
		c.ended.Store(endedDeadline)
	}
}

type callKey struct{}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.theCall()
	}
	return c.full().Value(key)
}

// full returns the context of package context, made once.
func (c *callContext) full() *innerContext {
	if inner := c.inner.Load(); inner != nil {
		return inner
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if inner := c.inner.Load(); inner != nil {
		return inner
	}
	parent := c.values
	if parent == nil {
		parent = context.Background()
	}
	made := new(innerContext)
	made.Context, made.cancel = context.WithCancelCause(parent)
	made = made.within(c.dateLocked())
	c.inner.Store(made)
	// finish may have found no inner context a moment ago.
	if c.ended.Load() == endedCanceled {
		made.cancel(c.cause)
	}
	return made
}

// within returns the context with a deadline, if there is one.
func (i *innerContext) within(deadline time.Time) *innerContext {
	if deadline.IsZero() {
		return i
	}
	made := &innerContext{cancel: i.cancel}
	made.Context, made.stop = context.WithDeadline(i.Context, deadline)
	return made
}

// theCall returns what the call is, made once.
func (c *callContext) theCall() *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call := c.call.Load(); call != nil {
		return call
	}
	made := &Call{Function: c.function, Peer: *c.peer, serving: c.values}
	c.call.Store(made)
	return made
}

// takeReply returns the extensions of the answer. A context that nobody asked for its call
// has none.
func (c *callContext) takeReply() []byte {
	if c == nil {
		return nil
	}
	call := c.call.Load()
	if call == nil {
		return nil
	}
	return call.takeReply()
}

// shorten moves the deadline to a moment that is earlier. The function must not
// have seen the context yet.
func (c *callContext) shorten(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() && !deadline.Before(c.deadline) {
		return
	}
	c.deadline, c.dated = deadline, time.Time{}
	if inner := c.inner.Load(); inner != nil {
		c.inner.Store(inner.within(deadline))
	}
}

// end cancels the context; the first reason counts.
func (c *callContext) end(cause error) {
	c.mu.Lock()
	if c.ended.CompareAndSwap(0, endedCanceled) {
		c.cause = cause
	}
	inner := c.inner.Load()
	c.mu.Unlock()
	if inner != nil {
		inner.cancel(cause)
	}
}

// finish is end when the function has returned. It runs for every call, so it takes no
// lock: either it sees the inner context, or full sees that the call has ended.
func (c *callContext) finish() {
	c.ended.CompareAndSwap(0, endedCanceled)
	if inner := c.inner.Load(); inner != nil {
		inner.cancel(context.Canceled)
	}
}
