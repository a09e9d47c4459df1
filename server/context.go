package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A callContext is the context of one call. It starts no timer and makes no
// channel until somebody asks for one: most functions never do. It implements
// the AfterFunc method that package context looks for, so that contexts derived
// from it need no goroutine.
type callContext struct {
	function string
	peer     *Peer
	deadline time.Time // zero: none

	// ended is written under mu and read without: functions that loop ask often.
	ended atomic.Uint32 // why it ended, as below

	// mu protects what follows.
	mu        sync.Mutex
	call      *Call // made when somebody asks for it, or by what came with the request
	done      chan struct{}
	timer     *time.Timer
	callbacks map[*func()]struct{}
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
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended.Load() != 0 {
			close(c.done)
		} else {
			c.startTimerLocked()
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *callContext) Err() error {
	if c.ended.Load() == 0 && !c.deadline.IsZero() && time.Until(c.deadline) <= 0 {
		c.end(context.DeadlineExceeded)
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
	return nil
}

// theCall returns what the call is, made once.
func (c *callContext) theCall() *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call == nil {
		c.call = &Call{Function: c.function, Peer: *c.peer}
	}
	return c.call
}

// AfterFunc arranges that f runs in a goroutine of its own when the context
// ends; stop undoes that.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Load() != 0 {
		go f()
		return func() bool { return false }
	}
	if c.callbacks == nil {
		c.callbacks = make(map[*func()]struct{})
	}
	key := &f
	c.callbacks[key] = struct{}{}
	c.startTimerLocked()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.callbacks[key]
		delete(c.callbacks, key)
		return waiting
	}
}

func (c *callContext) startTimerLocked() {
	if c.timer == nil && !c.deadline.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.end(context.DeadlineExceeded) })
	}
}

// shorten moves the deadline to a moment that is earlier. The function must not
// have seen the context yet.
func (c *callContext) shorten(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() && !deadline.Before(c.deadline) {
		return
	}
	c.deadline = deadline
	if c.timer != nil {
		c.timer.Reset(time.Until(deadline))
	} else if c.done != nil && c.ended.Load() == 0 {
		c.startTimerLocked()
	}
}

// end ends the context because of context.Canceled or context.DeadlineExceeded;
// the first reason counts. It runs for every call, so it defers nothing.
func (c *callContext) end(reason error) {
	c.mu.Lock()
	if c.ended.Load() == 0 {
		c.endLocked(reason)
	}
	c.mu.Unlock()
}

func (c *callContext) endLocked(reason error) {
	ended := endedCanceled
	if reason == context.DeadlineExceeded {
		ended = endedDeadline
	}
	c.ended.Store(ended)
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.done != nil {
		close(c.done)
	}
	for callback := range c.callbacks {
		go (*callback)()
	}
	c.callbacks = nil
}
