package server

import (
	"sync"

	"github.com/nearcall/nearcall/internal/wire"
)

// parkedBytesKept is the largest buffer that a parked connection keeps because its next
// call will need it again: there are many idle connections, and small calls are common.
const parkedBytesKept = 512

// receiveOrPark reads what has arrived of a message that has need bytes in all. If
// nothing has, the connection is parked: it waits without a goroutine, no longer
// belongs to the caller, and goes on in resume when something arrives.
func (r *reader) receiveOrPark(need int) (parked bool, err error) {
	c := r.connection
	ready, err := r.fallAsleep()
	if !ready {
		return false, err
	}
	r.rest()
	// This comes first, because the connection may be resumed at once.
	c.server.counters.parked.Add(1)
	if c.parking.Park(c.onReady) {
		return true, nil
	}
	c.server.counters.parked.Add(-1)
	return false, r.receiveNow(need)
}

// resume continues the reading of a connection that was parked.
func (c *connection) resume() {
	c.server.counters.parked.Add(-1)
	r := c.reader
	if err := r.receiveNow(r.parser.Need(r.input.unread())); err != nil && !r.readsOn(err) {
		c.endOfReading(err)
		c.calls.running.Done()
		c.end()
		return
	}
	r.read()
}

// receiveNow reads what has arrived, which may be nothing.
func (r *reader) receiveNow(need int) error {
	c := r.connection
	r.input.wake(c.server.readBuffers)
	if err := r.makeRoom(need); err != nil {
		return err
	}
	former := len(r.input.unread())
	err := r.input.fillNow(c.parking)
	if len(r.input.unread()) > former {
		r.input.grow(c.server.readBuffers)
	}
	return r.wakeUp(former, err)
}

// rest gives back what a parked connection does not need. Preconditions: nothing uses
// the bytes of frames that were parsed.
func (r *reader) rest() {
	c := r.connection
	r.input.rest(c.server.readBuffers)
	r.frame = wire.Frame{}
	r.contexts = contextSupply{}
	if cap(r.inline.scratch) > parkedBytesKept {
		r.inline.dropScratch()
	}
	c.output.rest()
}

// rest gives the buffers back, except a small one with the bytes of a message that has
// begun. If more bytes than that have arrived, the buffer stays until the message is
// complete.
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

// wake lends a small buffer to an input that has none. Many connections may wake at
// once, and most do so for a small call.
func (in *input) wake(buffers *readBuffers) {
	if in.data == nil {
		in.lent.small = buffers.small.get()
		in.data = in.lent.small[:]
	}
}

// grow lends a large buffer in place of a small one that is full. A buffer that is
// borrowed from the pool is left alone: a larger one of the pool will replace it.
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

// rest gives buffers back that are not small, unless they are in use.
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

// The buffers that connections read into while they are not parked.
type (
	smallBuffer [inputBytesIdle]byte
	largeBuffer [inputBytesBusy]byte
)

// lentBuffers are the buffers that an input has; nil means none.
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

// readBuffers holds the buffers that no connection uses. The garbage collector empties
// it.
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
