package server

import (
	"time"

	"github.com/nearcall/nearcall/status"
)

const (
	// Results from here on are expected again of the function that returned one.
	expectedBytesMin = 64 << 10
	// A request is held back for this part of what a result waits, or of its own time.
	heldPart = 2
	// What is promised to a call is at most this part of a budget.
	promisePart = 16
)

// expect notes how large the last result was, where it was large.
func (f *function) expect(resultBytes int) {
	if resultBytes >= expectedBytesMin {
		f.expected.Store(int64(resultBytes))
	} else if f.expected.Load() != 0 {
		f.expected.Store(0)
	}
}

// holdBack holds a request back that has not begun as long as its user has no room for
// the reply that is expected, and refuses it when unread replies are the reason. Where
// functions that still run are, it begins after all: nobody knows how long they take.
func (c *connection) holdBack(f *function, limit time.Duration) *status.Error {
	s := &c.user.output
	bytes := f.expected.Load()
	if bytes == 0 {
		bytes = int64(c.frameBytesMax)
	}
	bytes = min(bytes, min(s.budget.perUserMax, s.budget.max)/promisePart)
	if c.out.promise(bytes, min(limit, c.server.config.writeTimeout)/heldPart) || s.hasRoomUnpromised(bytes) {
		return nil
	}
	return s.refusal()
}

// holdBackUntil is holdBack for the request in c.frame, which expires.
func (c *connection) holdBackUntil(f *function, expiryNs uint64) *status.Error {
	limit := c.server.config.writeTimeout
	if expiryNs > 0 {
		limit = min(limit, time.Duration(expiryNs-c.nowNs))
	}
	refusal := c.holdBack(f, limit)
	c.nowNs = c.server.clock.Ns()
	if refusal == nil && expiryNs > 0 && c.nowNs >= expiryNs {
		return refusedf(status.DeadlineExceeded, "the deadline passed while replies to this user waited to be read")
	}
	return refusal
}

// promise counts bytes for a reply of a call that has not begun, when there is room for
// it. They are given back when the connection has written everything.
func (o *output) promise(bytes int64, limit time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := &o.kept
	switch {
	case o.broken:
		return true
	case k.share.budget.queue.waiting.Load() == 0 && k.share.take(bytes):
		k.counted += int(bytes)
	default:
		o.flushLocked()
		if !o.waitForShareLocked(bytes, 0, limit) {
			return false
		}
	}
	if !o.broken {
		k.promised += bytes
		k.share.countPromised(bytes)
	}
	return true
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
