package server

import (
	"time"

	"github.com/nearcall/nearcall/status"
)

const (
	// Room for results from here on is promised, however much there is.
	expectedBytesMin = 64 << 10
	// What is expected becomes smaller by one part of so many with each result that is.
	expectedPart = 8
	// A request is held back for this part of what a result waits, or of its own time.
	heldPart = 2
	// What is promised to a call is at most this part of a budget.
	promisePart = 16
)

// expect notes how large a result was, where it was large. The largest of the last few is
// expected, so that one small result does not hide that others are not.
func (f *function) expect(resultBytes int) {
	former, bytes := f.expected.Load(), int64(resultBytes)
	if bytes <= outputBytesFree {
		if former == 0 {
			return
		}
		bytes = 0
	}
	next := max(bytes, former-former/expectedPart)
	if next <= outputBytesFree {
		next = 0
	}
	if next != former {
		f.expected.Store(next)
	}
}

// mustHoldBack reports whether a request is not to begin before there is room for its reply:
// where the last ones were large, and where next to no room is left also for smaller
// ones, and of functions of which nothing is known. Small replies need no room.
func (c *connection) mustHoldBack(f *function) bool {
	expected := f.expected.Load()
	return expected >= expectedBytesMin || c.user.output.isFull() && (expected > 0 || f.calls.Load() == 0)
}

// toPromise returns the bytes that are to be promised to a call.
func (c *connection) toPromise(f *function) int64 {
	bytes := f.expected.Load()
	if bytes == 0 {
		bytes = int64(c.frameBytesMax)
	}
	b := c.user.output.budget
	return min(bytes, min(b.perUserMax, b.max)/promisePart)
}

// holdBack holds a request back that has not begun as long as its user has no room for
// the reply that is expected, and refuses it when unread replies are the reason. Where
// functions that still run are, it begins after all: nobody knows how long they take. It waits for no
// longer than a part of the limit, nor after gone is closed.
func (c *connection) holdBack(f *function, limit time.Duration, gone <-chan struct{}) *status.Error {
	s, bytes := &c.user.output, c.toPromise(f)
	if c.out.promise(bytes, min(limit, c.server.config.writeTimeout)/heldPart, gone) || s.hasRoomUnpromised(bytes) {
		return nil
	}
	return s.refusal(bytes)
}

// holdBack is that for a call which has a goroutine of its own.
func (e *execution) holdBack() error {
	limit := e.connection.server.config.writeTimeout
	if deadline, bounded := e.context.Deadline(); bounded {
		limit = min(limit, time.Until(deadline))
	}
	refusal := e.connection.holdBack(e.function, limit, e.context.Done())
	if err := e.context.Err(); err != nil {
		return notStarted(err)
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// promise counts bytes for a reply of a call that has not begun, when there is room for
// it. They are given back when the connection has written everything.
func (o *output) promise(bytes int64, limit time.Duration, gone <-chan struct{}) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken || o.promiseNowLocked(bytes) {
		return true
	}
	o.flushLocked()
	if !o.waitForShareLocked(bytes, 0, limit, gone) {
		return false
	}
	if !o.broken {
		o.promisedLocked(bytes)
	}
	return true
}

// promiseNow is promise for who cannot wait.
func (o *output) promiseNow(bytes int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken || o.promiseNowLocked(bytes)
}

func (o *output) promiseNowLocked(bytes int64) bool {
	k := &o.kept
	if k.share.budget.queue.waiting.Load() != 0 || !k.share.take(bytes) {
		return false
	}
	k.counted += int(bytes)
	o.promisedLocked(bytes)
	return true
}

func (o *output) promisedLocked(bytes int64) {
	o.kept.promised += bytes
	o.kept.share.countPromised(bytes)
}

// keepPromiseLocked is for when there is something to be written: what was promised is
// then counted as any other.
func (o *output) keepPromiseLocked() {
	k := &o.kept
	if k.promised > 0 {
		k.share.countPromised(-k.promised)
		k.promised = 0
	}
}

func (s *share) countPromised(bytes int64) {
	s.promised.Add(bytes)
	s.budget.promised.Add(bytes)
}

// hasRoomUnpromised reports whether there would be room if functions that run returned
// nothing.
func (s *share) hasRoomUnpromised(bytes int64) bool {
	b := s.budget
	return s.held.Load()-s.promised.Load()+bytes <= b.perUserMax && b.held.Load()-b.promised.Load()+bytes <= b.max
}
