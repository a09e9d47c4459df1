package server

import (
	"time"

	"github.com/nearcall/nearcall/status"
)

const (
	// For expected results of at least this size room is promised, however much of it
	// is left.
	expectedBytesMin = 64 << 10
	// With each smaller result the expected size becomes smaller by this part.
	expectedPart = 8
	// A request is held back for this part of the time that a result may wait, or of
	// its own time.
	heldPart = 2
	// At most this part of a budget is promised to one call.
	promisePart = 16
)

// expect notes the size of a result if it is large. The largest of the last few results
// is expected, so that one small result does not hide that the others are large.
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

// mustHoldBack reports whether a request must not begin before there is room for its
// reply. That is so if the last replies of the function were large. If hardly any room
// is left, it is also so if they were smaller, and for functions of which nothing is
// known. Small replies need no room.
func (c *connection) mustHoldBack(f *function) bool {
	expected := f.expected.Load()
	return expected >= expectedBytesMin || c.user.output.isFull() && (expected > 0 || f.calls.Load() == 0)
}

// toPromise returns how many bytes to promise to a call.
func (c *connection) toPromise(f *function) int64 {
	bytes := f.expected.Load()
	if bytes == 0 {
		bytes = int64(c.agreed.frameBytesMax)
	}
	b := c.user.output.budget
	return min(bytes, min(b.perUserMax, b.max)/promisePart)
}

// holdBack holds back a request that has not begun, as long as its user has no room for
// the expected reply. If unread replies are the reason it then refuses the request. If
// running functions are the reason, the request begins after all, because nobody knows
// how long they will take. holdBack waits for a part of limit at most, and not after
// gone is closed.
func (c *connection) holdBack(f *function, limit time.Duration, gone <-chan struct{}) *status.Error {
	s, bytes := &c.user.output, c.toPromise(f)
	if c.output.promise(bytes, min(limit, c.server.config.writeTimeout)/heldPart, gone) || s.hasRoomUnpromised(bytes) {
		return nil
	}
	return s.refusal(bytes)
}

// holdBack is connection.holdBack for a call that has a goroutine of its own.
func (e *execution) holdBack() error {
	limit := e.connection.server.config.writeTimeout
	if deadline, bounded := e.context.Deadline(); bounded {
		limit = min(limit, time.Until(deadline))
	}
	refusal := e.connection.holdBack(e.function, limit, e.context.Done())
	if err := e.context.Err(); err != nil {
		return e.connection.notStarted(err)
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// promise counts bytes for the reply of a call that has not begun, and reports whether
// there is room for them. They are uncounted when the connection has written
// everything.
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

// promiseNow is promise without waiting.
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

// keepPromiseLocked is called when there is something to write: what was promised then
// counts like everything else.
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

// hasRoomUnpromised reports whether there would be room if all running functions
// returned nothing.
func (s *share) hasRoomUnpromised(bytes int64) bool {
	b := s.budget
	return s.held.Load()-s.promised.Load()+bytes <= b.perUserMax && b.held.Load()-b.promised.Load()+bytes <= b.max
}
