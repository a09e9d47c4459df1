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
	if err := c.makeRoom(need); err != nil {
		return err
	}
	former := len(c.in.unread())
	err := c.in.fillNow(c.parking)
	if len(c.in.unread()) > former {
		c.in.grow(c.server.readBuffers)
	}
	return c.wakeUp(former, err)
}

// rest gives back what a parked connection needs no more. Precondition: nothing uses
// the bytes of frames that were parsed.
func (c *connection) rest() {
	c.in.rest(c.server.readBuffers)
	c.frame = wire.Frame{}
	c.contexts = contextSupply{}
	if cap(c.inline.scratch) > parkedBytesKept {
		c.inline.dropScratch()
	}
	c.out.rest()
}

// rest gives the buffers up, but for a small one with the bytes of a message that
// has begun; one of which more bytes have come stays until that is complete.
func (in *input) rest(buffers *readBuffers) {
	unread := in.unread()
	small := in.own == nil && len(in.data) == inputBytesIdle
	if len(unread) > inputBytesIdle || len(unread) > 0 && small {
		return
	}
	var kept []byte
	if len(unread) > 0 {
		kept = append(make([]byte, 0, inputBytesIdle), unread...)
	}
	in.giveBack()
	in.uncount(int(in.counted))
	in.start, in.end, in.data = 0, len(kept), kept[:cap(kept)]
	in.lent.giveBack(buffers)
}

// wake lends a small buffer to an input that has given its own up: many connections may
// wake at once, most for a small call.
func (in *input) wake(buffers *readBuffers) {
	if in.data == nil {
		in.lent.small = buffers.small.get()
		in.data = in.lent.small[:]
	}
}

// grow lends a large buffer in place of a small one that was filled, but for one that is
// borrowed from the pool: that is replaced by a larger one of the same.
func (in *input) grow(buffers *readBuffers) {
	if in.end < len(in.data) || len(in.data) >= inputBytesBusy || in.own != nil || !in.share.takeSpare(inputBytesBusy-inputBytesIdle) {
		return
	}
	in.counted += inputBytesBusy - inputBytesIdle
	large := buffers.large.get()
	in.move(large[:])
	in.lent.giveBack(buffers)
	in.lent.large = large
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

// What connections read into while they are not parked.
type (
	smallBuffer [inputBytesIdle]byte
	largeBuffer [inputBytesBusy]byte
)

// lentBuffers are those that an input has; nil: none.
type lentBuffers struct {
	small *smallBuffer
	large *largeBuffer
}

func (l *lentBuffers) giveBack(to *readBuffers) {
	if l.small != nil {
		to.small.put(l.small)
	}
	if l.large != nil {
		to.large.put(l.large)
	}
	*l = lentBuffers{}
}

// readBuffers are those that nobody reads into. The garbage collector empties them.
type readBuffers struct {
	small reserve[smallBuffer]
	large reserve[largeBuffer]
}

type reserve[B any] struct{ pool sync.Pool }

func (r *reserve[B]) get() *B {
	if lent, ok := r.pool.Get().(*B); ok {
		return lent
	}
	return new(B)
}

func (r *reserve[B]) put(buffer *B) { r.pool.Put(buffer) }
