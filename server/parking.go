package server

import (
	"sync"

	"github.com/nearcall/nearcall/internal/wire"
)

// parkedBytesKept is the largest buffer that a parked connection keeps where the
// next call will want it again: idle connections are many, and small calls common.
const parkedBytesKept = 512

// receiveOrPark reads what is there of a message that takes need bytes in all. Where
// nothing is, the connection waits without a goroutine: then it is no longer the
// caller's, and resume goes on when there is something.
func (c *connection) receiveOrPark(need int) (parked bool, err error) {
	ready, err := c.fallAsleep()
	if !ready {
		return false, err
	}
	c.rest()
	// Before the connection may be resumed.
	c.server.counters.parked.Add(1)
	if c.parking.Park(c.onReady) {
		return true, nil
	}
	c.server.counters.parked.Add(-1)
	return false, c.receiveNow(need)
}

// resume is where the reading of a connection that was parked goes on.
func (c *connection) resume() {
	c.server.counters.parked.Add(-1)
	if err := c.receiveNow(c.parser.Need(c.in.unread())); err != nil {
		c.readerEnds(err)
		c.running.Done()
		c.end()
		return
	}
	c.read()
}

// receiveNow reads what is there, which may be nothing.
func (c *connection) receiveNow(need int) error {
	c.in.wake(c.server.readBuffers)
	c.in.makeRoom(need)
	former := len(c.in.unread())
	return c.wakeUp(former, c.in.fillNow(c.parking))
}

// rest gives back what a parked connection needs no more. Precondition: nothing uses
// the bytes of frames that were parsed.
func (c *connection) rest() {
	c.in.rest(c.server.readBuffers)
	c.frame = wire.Frame{}
	if cap(c.inline.scratch) > parkedBytesKept {
		c.inline.scratch = nil
	}
	c.out.rest()
}

// rest gives the buffers up, but for a small one with the bytes of a message that
// has begun; one that was lent to a large message stays until that is complete.
func (in *input) rest(buffers *readBuffers) {
	unread := in.unread()
	if len(unread) > inputBytesIdle || in.lent == nil && len(unread) > 0 {
		return
	}
	var kept []byte
	if len(unread) > 0 {
		kept = append(make([]byte, 0, inputBytesIdle), unread...)
	}
	in.giveBack()
	in.start, in.end, in.data = 0, len(kept), kept[:cap(kept)]
	if in.lent != nil {
		buffers.put(in.lent)
		in.lent = nil
	}
}

// wake lends a buffer to an input that has given its own up.
func (in *input) wake(buffers *readBuffers) {
	if in.data == nil {
		in.lent = buffers.get()
		in.data = in.lent[:]
	}
}

// rest gives buffers up that are not small. Others may be about to use them again.
func (o *output) rest() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing || len(o.pending) > 0 {
		return
	}
	if cap(o.pending) > parkedBytesKept {
		o.pending = nil
	}
	if cap(o.spare) > parkedBytesKept {
		o.spare = nil
	}
	o.vector = nil
}

// A readBuffer is what a connection reads into while it is not parked.
type readBuffer [inputBytesBusy]byte

// readBuffers are those that nobody reads into. The garbage collector empties it.
type readBuffers struct{ pool sync.Pool }

func (p *readBuffers) get() *readBuffer {
	if lent, ok := p.pool.Get().(*readBuffer); ok {
		return lent
	}
	return new(readBuffer)
}

func (p *readBuffers) put(buffer *readBuffer) { p.pool.Put(buffer) }
