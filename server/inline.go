package server

import (
	"context"
	"time"
)

// runInline runs the request's function in the reader. It reports whether this
// goroutine is still the reader afterwards.
func (r *reader) runInline(f *function, expiryNs uint64) bool {
	r.begin(f, expiryNs)
	return r.finishInline()
}

// begin runs the function in the reader, and leaves what it returned in inline.
func (r *reader) begin(f *function, expiryNs uint64) {
	e := &r.inline
	e.id, e.function, e.codec, e.payload = r.frame.CallID, f, r.frame.Codec, r.frame.Payload
	e.owned = r.memory.hasKept()
	ctx := context.Background()
	if f.needsContext {
		e.context = r.newContext(f, expiryNs)
		ctx = e.context
	}
	e.startedNs, e.untimed = r.nowNs, r.memory.isUntimed()
	if r.connection.server.config.observer != nil {
		e.observeBegin(r.connection.observed.Load())
		e.observeStart()
	}
	// From begin on, another goroutine may be the reader.
	e.marks = r.marks
	e.mark = r.connection.role.begin(f.watchTick())
	e.start(ctx)
}

// replaceReader goes on in place of a goroutine that its call has ended.
func replaceReader(r *reader) {
	if r.finishInline() {
		// processMemory, which would have done so, ended with that goroutine.
		r.memory.dropKept()
		r.read()
	} else {
		r.connection.calls.running.Done()
	}
}

// finishInline ends the call that runInline has begun, and reports the same.
func (r *reader) finishInline() bool {
	c, e := r.connection, &r.inline
	stillReader := c.role.end(e.mark)
	doneNs := c.account(e, e.startedNs, e.untimed && stillReader)
	if stillReader && c.needsStore(e) {
		stillReader = !r.passOn()
	}
	if stillReader {
		r.doneNs = doneNs
		c.answer(e, nil)
		e.finish() // the caller waits for the answer, and hardly anybody for this
		e.context, e.payload, e.result = nil, nil, nil
		return true
	}
	e.finish()
	c.answer(e, func() { c.calls.forget(e) })
	c.output.flush()
	return false
}

// passOn lets another goroutine read on while this one sends the answer of its call, for which it
// may have to wait for the caller. It reports false if nobody is to read any more.
func (r *reader) passOn() bool {
	c := r.connection
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	if c.calls.closed {
		return false
	}
	c.calls.adoptLocked(&r.inline)
	c.reader = r.successor()
	c.calls.running.Add(1)
	go c.reader.start(c.reader)
	return true
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

// newContext makes the context of the request in r.frame.
func (r *reader) newContext(f *function, expiryNs uint64) *callContext {
	c := r.connection
	made := r.contexts.next()
	made.function, made.origin, made.deadlineNs = f, &c.origin, expiryNs
	if r.frame.ExtensionBytes > 0 {
		made.keepExtensions(r.frame.Extensions)
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
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	if c.calls.closed || !c.role.take(mark) {
		return
	}
	former := c.reader
	former.inline.function.blocked()
	c.calls.adoptLocked(&former.inline)
	c.reader = former.successor()
	c.calls.running.Add(1)
	if former.simple.spoken {
		former.inline.late = make(chan struct{})
		go c.reader.readSimpleBeside(&former.inline)
		return
	}
	go c.reader.read()
}
