package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Results that wait for room may take so many times what their user may have of
	// replies that wait to be read. They are there already: dropping them is the last resort.
	// The meaning of output_bytes_per_user_max says so.
	lateTimes = 2
)

// A claim waits for room in a share. What is given back goes to results before it goes to
// requests, and to those that came first.
type claim struct {
	share   *share
	bytes   int64
	late    int64         // what a result in hand takes meanwhile, 0 for a request
	granted chan struct{} // closed when the bytes are counted
}

// A queue has the claims of a budget.
type queue struct {
	waiting atomic.Int64 // claims; to be read without the lock

	// mu protects what follows, and the claims of shares.
	mu     sync.Mutex
	shares []*share // those with claims; each is first in its turn
	late   int64
}

// waitFor waits until bytes are counted, or the limit is over, or gone is closed; it reports
// whether they are. There is no waiting for what can never be had, nor with a result
// (late is not 0) where those that wait take all that they may.
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

// enqueue adds a claim, unless results take all that they may while they wait.
func (b *budget) enqueue(c *claim) bool {
	q, s := &b.queue, c.share
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.late > 0 && (s.late+c.late > lateTimes*b.perUserMax || q.late+c.late > b.max) {
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
	s.late += c.late
	q.late += c.late
	q.waiting.Add(1)
	// Whoever gave room back before that did not see the claim.
	b.grantLocked()
	return true
}

// dequeue takes a claim back; it reports whether it was granted meanwhile.
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
	// Those behind it may want less.
	b.grantLocked()
	return false
}

// grant gives room that was given back to those who wait for it.
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
	// Where all of the budget is taken, another user is the first to get what comes.
	if len(q.shares) > 1 {
		q.shares = append(q.shares[1:], q.shares[0])
	}
}

// grantLocked grants the first claims of a list and returns the others.
func (s *share) grantLocked(claims []*claim) []*claim {
	for len(claims) > 0 && s.take(claims[0].bytes) {
		s.budget.settleLocked(claims[0])
		close(claims[0].granted)
		claims[0] = nil
		claims = claims[1:]
	}
	return claims
}

// settleLocked takes back what enqueue counted.
func (b *budget) settleLocked(c *claim) {
	b.queue.waiting.Add(-1)
	b.queue.late -= c.late
	c.share.late -= c.late
}

// waitForShareLocked waits, without the lock, for so many bytes of the user's share, which
// are then counted as this output's. late is what a result in hand takes meanwhile.
// It reports false when there is no room in time, or before gone is closed.
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

// goneLocked returns what is closed when the output breaks.
func (o *output) goneLocked() <-chan struct{} {
	if o.kept.gone == nil {
		o.kept.gone = make(chan struct{})
	}
	return o.kept.gone
}

// breakLocked ends all waiting. Nothing is written any more.
func (o *output) breakLocked() {
	if !o.broken && o.kept.gone != nil {
		close(o.kept.gone)
	}
	o.broken = true
}
