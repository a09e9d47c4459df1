package server

import (
	"context"
	"time"
)

// runInline runs the request's function in the reader. It reports whether this
// goroutine is still the reader afterwards.
func (c *connection) runInline(f *function, expiryNs uint64) bool {
	e := c.inline
	e.id, e.function, e.codec, e.payload = c.frame.CallID, f, c.frame.Codec, c.frame.Payload
	ctx := context.Background()
	if f.needsContext {
		e.context = c.newContext(f, expiryNs)
		ctx = e.context
	}
	e.startedNs, e.untimed = c.nowNs, c.memory.isUntimed()
	// From begin on, another goroutine may be the reader.
	e.marks = c.marks
	e.mark = c.role.begin(f.watchTick())
	e.start(ctx)
	return c.finishInline(e)
}

// replaceReader goes on in place of a reader whose goroutine was ended by the function
// of e.
func replaceReader(e *execution) {
	c := e.connection
	if c.finishInline(e) {
		c.read()
	} else {
		c.running.Done()
	}
}

// finishInline ends the call that runInline has begun, and reports the same.
func (c *connection) finishInline(e *execution) bool {
	stillReader := c.role.end(e.mark)
	doneNs := c.account(e, e.startedNs, e.untimed && stillReader)
	e.cancel(context.Canceled)
	if stillReader {
		c.doneNs = doneNs
		c.answer(e, nil)
		e.context, e.payload, e.result = nil, nil, nil
		return true
	}
	c.answer(e, func() { c.forget(e) })
	c.out.flush()
	return false
}

// newInline returns the execution of the calls that a reader runs.
func (c *connection) newInline() *execution {
	return &execution{server: c.server, connection: c, goOn: replaceReader}
}

// account counts a call that has run, and returns when it was over.
func (c *connection) account(e *execution, startedNs uint64, untimed bool) (doneNs uint64) {
	if untimed {
		e.function.count(e.err != nil)
		return startedNs
	}
	doneNs = c.server.clock.Ns()
	e.function.ran(time.Duration(doneNs-startedNs), e.err != nil)
	return doneNs
}

// newContext makes the context of the request in c.frame.
func (c *connection) newContext(f *function, expiryNs uint64) *callContext {
	made := c.contexts.next()
	made.function, made.peer, made.values = f.name, &c.peer, c.service.values
	if c.frame.ExtensionBytes > 0 {
		made.theCall().parseMetadata(c.frame.Extensions)
	}
	if expiryNs > 0 {
		made.deadline = time.Now().Add(time.Duration(expiryNs - c.nowNs))
	}
	return made
}

// watch is what the timer calls. If the reader has been running one function for a
// tick, it makes another goroutine the reader.
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
	// The former reader keeps what its call uses. From here on it touches nothing else
	// that belongs to the reader.
	slow := c.inline
	slow.function.blocked()
	c.adopt(slow)
	c.inline = c.newInline()
	c.contexts = contextSupply{}
	slow.counted = c.in.counted + c.memory.split()
	c.in = c.in.split()
	c.running.Add(1)
	go c.read()
}
