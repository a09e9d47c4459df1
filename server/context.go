package server

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
)

// A callContext is the context of one call. It starts no timer and makes no channel until
// somebody asks for one: most functions never do. From then on a context of package
// context stands behind it, so that what is derived from it needs no goroutine and causes
// are known. Its values are those of the context that Serve was given.
//
// Each call has one of its own, because a function may keep it. So it is small, and what
// only some calls need is behind more.
type callContext struct {
	function   *function
	origin     *contextOrigin
	deadlineNs uint64 // of the origin's clock; 0: none

	// ended is written under mu, except by finish, and read without: functions that loop ask
	// often. Where there is an inner context, that one counts.
	ended atomic.Uint32 // why it ended, as below
	more  atomic.Pointer[contextMore]
}

// A contextOrigin is what the contexts of all calls of one caller have in common.
type contextOrigin struct {
	clock  *monotonic.Clock
	peer   *Peer
	values context.Context // nil: none
	// reserved are bytes of the extensions of answers that the server may need itself.
	reserved int
}

// A contextMore is the part of a context that is made when somebody asks for it, or when the
// call is cancelled.
type contextMore struct {
	inner atomic.Pointer[innerContext]

	// call is made when somebody asks for it, of what came with the request. The pairs in it take many
	// times what they took on their way, and most functions never ask.
	call       atomic.Pointer[Call]
	extensions []byte

	// mu protects what follows, the making of inner and call, and extensions.
	mu    sync.Mutex
	cause error     // why it was canceled; nil stands for context.Canceled
	dated time.Time // the deadline with the time of day; zero until somebody asks
}

// furnished returns the part that is made when somebody asks for it.
func (c *callContext) furnished() *contextMore {
	if more := c.more.Load(); more != nil {
		return more
	}
	c.more.CompareAndSwap(nil, new(contextMore))
	return c.more.Load()
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
	if c.deadlineNs == 0 {
		return time.Time{}, false
	}
	more := c.furnished()
	more.mu.Lock()
	defer more.mu.Unlock()
	return c.dateLocked(more), true
}

// dateLocked returns the deadline, which there is, with the time of day that it has by the
// clock of now.
func (c *callContext) dateLocked(more *contextMore) time.Time {
	if more.dated.IsZero() {
		now := time.Now()
		more.dated = now.Add(c.origin.clock.Time(c.deadlineNs).Sub(now))
	}
	return more.dated
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} { return c.full().Done() }

// Err implements context.Context.
func (c *callContext) Err() error {
	if more := c.more.Load(); more != nil {
		if inner := more.inner.Load(); inner != nil {
			return inner.Err()
		}
	}
	if c.deadlineNs > 0 && c.ended.Load() == 0 && c.origin.clock.Ns() >= c.deadlineNs {
		// What has been said once stays so.
		c.ended.CompareAndSwap(0, endedDeadline)
	}
	switch c.ended.Load() {
	case endedCanceled:
		return context.Canceled
	case endedDeadline:
		return context.DeadlineExceeded
	}
	return nil
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
	more := c.furnished()
	if inner := more.inner.Load(); inner != nil {
		return inner
	}
	more.mu.Lock()
	defer more.mu.Unlock()
	if inner := more.inner.Load(); inner != nil {
		return inner
	}
	parent := c.origin.values
	if parent == nil {
		parent = context.Background()
	}
	made := new(innerContext)
	made.Context, made.cancel = context.WithCancelCause(parent)
	if c.deadlineNs > 0 {
		made = made.within(c.dateLocked(more))
	}
	more.inner.Store(made)
	// finish may have found no inner context a moment ago.
	if c.ended.Load() == endedCanceled {
		made.cancel(more.cause)
	}
	return made
}

// within returns the context with a deadline.
func (i *innerContext) within(deadline time.Time) *innerContext {
	made := &innerContext{cancel: i.cancel}
	made.Context, made.stop = context.WithDeadline(i.Context, deadline)
	return made
}

// theCall returns what the call is, made once.
func (c *callContext) theCall() *Call {
	more := c.furnished()
	more.mu.Lock()
	defer more.mu.Unlock()
	if call := more.call.Load(); call != nil {
		return call
	}
	made := &Call{Function: c.function.name, Peer: *c.origin.peer, serving: c.origin.values, reserved: c.origin.reserved}
	made.parseMetadata(more.extensions)
	more.extensions = nil
	more.call.Store(made)
	return made
}

// keepExtensions keeps what came with the request until somebody asks for the call. Nobody has the
// context yet.
func (c *callContext) keepExtensions(extensions []byte) {
	if tellOfCall(extensions) {
		c.furnished().extensions = bytes.Clone(extensions)
	}
}

// takeReply returns the extensions of the answer. A context that nobody asked for its call
// has none.
func (c *callContext) takeReply() []byte {
	if c == nil {
		return nil
	}
	more := c.more.Load()
	if more == nil {
		return nil
	}
	call := more.call.Load()
	if call == nil {
		return nil
	}
	return call.takeReply()
}

// shorten makes the call end so soon, if it does not end earlier anyhow. The function must
// not have seen the context yet.
func (c *callContext) shorten(limit time.Duration) {
	more := c.furnished()
	more.mu.Lock()
	defer more.mu.Unlock()
	deadlineNs := c.origin.clock.Ns() + uint64(limit)
	if c.deadlineNs > 0 && deadlineNs >= c.deadlineNs {
		return
	}
	c.deadlineNs, more.dated = deadlineNs, time.Time{}
	if inner := more.inner.Load(); inner != nil {
		more.inner.Store(inner.within(c.dateLocked(more)))
	}
}

// end cancels the context; the first reason counts.
func (c *callContext) end(cause error) {
	more := c.furnished()
	more.mu.Lock()
	if c.ended.CompareAndSwap(0, endedCanceled) {
		more.cause = cause
	}
	inner := more.inner.Load()
	more.mu.Unlock()
	if inner != nil {
		inner.cancel(cause)
	}
}

// finish is end when the function has returned. It runs for every call, so it takes no
// lock: either it sees the inner context, or full sees that the call has ended.
func (c *callContext) finish() {
	c.ended.CompareAndSwap(0, endedCanceled)
	more := c.more.Load()
	if more == nil {
		return
	}
	if inner := more.inner.Load(); inner != nil {
		inner.cancel(context.Canceled)
	}
}
