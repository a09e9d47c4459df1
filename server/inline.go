package server

import (
	"context"
	"time"
)

// runInline runs the request's function in the reader; it reports whether this
// goroutine is still the reader afterwards.
func (c *connection) runInline(f *function, deadline time.Time) bool {
	e := c.inline
	e.id, e.function, e.codec, e.payload = c.frame.CallID, f, c.frame.Codec, c.frame.Payload
	ctx := context.Background()
	if f.TakesContext() || len(c.server.config.interceptors) > 0 {
		e.context = c.newContext(f, deadline)
		ctx = e.context
	}
	started := time.Now()
	mark := c.role.begin()
	e.run(ctx)
	stillReader := c.role.end(mark)
	f.ran(time.Since(started), e.err != nil)
	e.cancel(context.Canceled)
	c.answer(e)
	if stillReader {
		e.context, e.payload, e.result = nil, nil, nil
		return true
	}
	c.out.flush()
	c.forget(e)
	return false
}

func (c *connection) newContext(f *function, deadline time.Time) *callContext {
	call := &Call{Function: f.name, Peer: c.peer}
	if c.frame.ExtensionBytes > 0 {
		call.parseMetadata(c.frame.Extensions)
	}
	return newCallContext(call, deadline)
}

// watch is the timer's function: it takes the reading over from a reader that
// has been running one function for a tick.
func (c *connection) watch() {
	mark, found := c.role.overdue()
	if !found {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.role.take(mark) {
		return
	}
	// The former reader keeps what its call uses, and from here on touches
	// nothing else of the reader's.
	slow := c.inline
	slow.function.blocked()
	c.calls[slow.id] = slow
	c.inline = &execution{connection: c}
	c.in = c.in.split()
	c.running.Add(1)
	go c.read()
}
