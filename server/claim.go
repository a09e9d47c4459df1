package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Results that wait for room may take up so many times what their user may have in
	// replies that wait to be read. They already exist, so dropping them is the last
	// resort. The meaning of output_bytes_per_user_max in spec/limits.json states this.
	lateTimes = 2
)

// A claim waits for room in a share. Bytes that are given back go to results before
// requests, and among each of these to the one that came first.
type claim struct {
	share   *share
	bytes   int64
	late    int64         // bytes of the result that waits, 0 for a request
	granted chan struct{} // closed when the bytes are counted
}

// A queue holds the claims on a budget.
type queue struct {
	waiting atomic.Int64 // number of claims; may be read without the lock

	// mu protects what follows, and the claims in shares.
	mu     sync.Mutex
	shares []*share // those with claims; they take turns at the front
	late   int64
}

// waitFor waits until so many bytes are counted, and reports true. It reports false
// when limit is over or gone is closed. late is the size of a result that waits, or 0
// for a request. waitFor does not wait for bytes that can never be had, nor with a
// result if the results that already wait take up all that they may.
func (s *share) waitFor(bytes, late int64, limit time.Duration, gone <-chan struct{}) bool {
	b := s.budget
	if b == nil || bytes > min(b.perUserMax, b.max) {
		return false
	}
	c := &claim{share: s, bytes: bytes, late: late, granted: make(chan struct{})}
	if !b.enqueue(c) {
		return false
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.granted:
		return true
	case <-timer.C:
	case <-gone:
	}
	return b.dequeue(c)
}

// enqueue adds a claim, unless waiting results already take up all that they may.
func (b *budget) enqueue(c *claim) bool {
	q, s := &b.queue, c.share
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.late > 0 && !s.isLateLocked(c.late) {
		return false
	}
	if len(s.results)+len(s.requests) == 0 {
		q.shares = append(q.shares, s)
	}
	if c.late > 0 {
		s.results = append(s.results, c)
	} else {
		s.requests = append(s.requests, c)
	}
	q.waiting.Add(1)
	// A goroutine that gave room back before this did not see the claim.
	b.grantLocked()
	return true
}

// isLateLocked counts a result that waits, and reports true, unless those that already wait take up
// all that they may.
func (s *share) isLateLocked(bytes int64) bool {
	q := &s.budget.queue
	if s.late+bytes > lateTimes*s.budget.perUserMax || q.late+bytes > s.budget.max {
		return false
	}
	s.late += bytes
	q.late += bytes
	return true
}

// beginLate is isLateLocked for a result that waits for something other than room. endLate uncounts it.
func (s *share) beginLate(bytes int64) bool {
	if s.budget == nil {
		return false
	}
	s.budget.queue.mu.Lock()
	defer s.budget.queue.mu.Unlock()
	return s.isLateLocked(bytes)
}

func (s *share) endLate(bytes int64) {
	s.budget.queue.mu.Lock()
	defer s.budget.queue.mu.Unlock()
	s.late -= bytes
	s.budget.queue.late -= bytes
}

// dequeue removes a claim, and reports whether it was granted meanwhile.
func (b *budget) dequeue(c *claim) bool {
	q, s := &b.queue, c.share
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-c.granted:
		return true
	default:
	}
	of := &s.requests
	if c.late > 0 {
		of = &s.results
	}
	if i := slices.Index(*of, c); i >= 0 {
		*of = slices.Delete(*of, i, i+1)
	}
	b.settleLocked(c)
	// The claims behind it may be smaller.
	b.grantLocked()
	return false
}

// grant hands room that was given back to the claims that wait for it.
func (b *budget) grant() {
	if b.queue.waiting.Load() == 0 {
		return
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.grantLocked()
}

func (b *budget) grantLocked() {
	q := &b.queue
	q.shares = slices.DeleteFunc(q.shares, func(s *share) bool {
		s.results = s.grantLocked(s.results)
		if len(s.results) == 0 {
			s.requests = s.grantLocked(s.requests)
		}
		return len(s.results)+len(s.requests) == 0
	})
	// If the whole budget is in use, another user is the first to get what becomes
	// free.
	if len(q.shares) > 1 {
		q.shares = append(q.shares[1:], q.shares[0])
	}
}

// isAwaited reports whether claims of the user wait. Those of other users do not count: they could
// be made to wait for as long as anybody likes.
func (s *share) isAwaited() bool {
	q := &s.budget.queue
	if q.waiting.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(s.results)+len(s.requests) > 0
}

// grantLocked grants claims from the front of a list and returns the rest.
func (s *share) grantLocked(claims []*claim) []*claim {
	for len(claims) > 0 && s.take(claims[0].bytes) {
		s.budget.settleLocked(claims[0])
		close(claims[0].granted)
		claims[0] = nil
		claims = claims[1:]
	}
	return claims
}

// settleLocked uncounts what enqueue has counted for a claim.
func (b *budget) settleLocked(c *claim) {
	b.queue.waiting.Add(-1)
	b.queue.late -= c.late
	c.share.late -= c.late
}

// waitForShareLocked waits for so many bytes of the user's share, without holding the
// lock. They then count as this output's. late is the size of a result that waits, or
// 0. It reports false if there is no room in time, or before gone is closed.
func (o *output) waitForShareLocked(bytes, late int64, limit time.Duration, gone <-chan struct{}) bool {
	k := &o.kept
	o.mu.Unlock()
	counted := k.share.waitFor(bytes, late, limit, gone)
	o.mu.Lock()
	if counted {
		k.counted += int(bytes)
	}
	if o.broken {
		o.releaseLocked()
	}
	return counted || o.broken
}

// gone is goneLocked for a goroutine that does not hold the lock.
func (o *output) gone() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.goneLocked()
}

// goneLocked returns a channel that is closed when the output breaks.
func (o *output) goneLocked() <-chan struct{} {
	if o.kept.gone == nil {
		o.kept.gone = make(chan struct{})
		if o.broken {
			close(o.kept.gone)
		}
	}
	return o.kept.gone
}

// breakLocked marks the output as broken: nothing more is written, and all waiting
// ends.
func (o *output) breakLocked() {
	if !o.broken && o.kept.gone != nil {
		close(o.kept.gone)
	}
	o.broken = true
}
