package server

import (
	"fmt"
	"sync/atomic"

	"github.com/nearcall/nearcall/status"
)

// What of a connection is too small to be counted, since it must not cost a quick call
// anything.
const (
	inputBytesFree  = 4 << 10
	outputBytesFree = 16 << 10
	// The buffer that takes them, as it is lent.
	outputBytesUncounted = outputBytesFree + pooledBytesExtra
	outputBytesStep      = 64 << 10

	budgetFullEighth = 6 // a budget that was full has room again below so many eighths
	// Buffers that connections only keep for what may come take this part of a share, and of
	// a budget, at most, so that many idle ones leave room.
	sparePart = 4
	// Who holds less than this part of a share is not refused because others hold too much.
	smallPart = 64
)

// apart keeps what every request reads, full above all, on other cache lines than what is
// written with every reply that is counted.
type apart [64]byte

// A budget is how many bytes may be held for peers, of which each user has a share.
type budget struct {
	kind   string // "input" or "output", as the limits are called
	option string // that raises them
	what   string // what is held, for people

	max, perUserMax         int64
	ceiling, perUserCeiling int64
	full                    atomic.Bool
	_                       apart
	held                    atomic.Int64
	promised                atomic.Int64 // what of it is for replies of calls that have not returned
	queue                   queue
}

// A share is what a budget holds for one user. The zero value, of who is not admitted,
// takes nothing.
type share struct {
	budget *budget
	// exempt is set for users that others must not be able to shut out.
	exempt   bool
	full     atomic.Bool
	_        apart
	held     atomic.Int64
	promised atomic.Int64

	// What waits for room, and the bytes of results that do: see queue.mu.
	results  []*claim
	requests []*claim
	late     int64
}

// take counts bytes, unless that would exceed the share or the budget.
func (s *share) take(bytes int64) bool {
	if s.budget == nil {
		return false
	}
	if !raise(&s.held, bytes, s.budget.perUserMax) {
		s.full.Store(true)
		return false
	}
	max := s.budget.max
	if s.exempt {
		max += s.budget.perUserMax
	}
	if !raise(&s.budget.held, bytes, max) {
		s.held.Add(-bytes)
		s.budget.full.Store(true)
		return false
	}
	return true
}

// allows reports whether a user may hold so many bytes at all.
func (s *share) allows(bytes int64) bool {
	return s.budget != nil && bytes <= min(s.budget.perUserMax, s.budget.max)
}

// takeSpare is take for what can be done without.
func (s *share) takeSpare(bytes int64) bool {
	b := s.budget
	return b != nil && s.held.Load()+bytes <= b.perUserMax/sparePart && b.held.Load()+bytes <= b.max/sparePart && s.take(bytes)
}

// raise adds to a counter that must not exceed max; it reports whether it could.
func raise(counter *atomic.Int64, bytes, max int64) bool {
	for {
		held := counter.Load()
		if bytes > max-held {
			return false
		}
		if counter.CompareAndSwap(held, held+bytes) {
			return true
		}
	}
}

// count counts bytes that are there already.
func (s *share) count(bytes int64) {
	s.held.Add(bytes)
	s.budget.held.Add(bytes)
}

// giveBack takes back what take or count counted.
func (s *share) giveBack(bytes int64) {
	if bytes > 0 {
		s.count(-bytes)
		s.budget.grant()
	}
}

// isFull reports whether bytes were refused and most of what was held then still is. That
// others hold too much concerns those who hold something themselves.
func (s *share) isFull() bool {
	b := s.budget
	return stillFull(&s.full, &s.held, b.perUserMax) ||
		!s.exempt && stillFull(&b.full, &b.held, b.max) && s.held.Load() > b.perUserMax/smallPart
}

func stillFull(full *atomic.Bool, held *atomic.Int64, max int64) bool {
	if !full.Load() {
		return false
	}
	if held.Load() < max/8*budgetFullEighth {
		full.Store(false)
		return false
	}
	return true
}

// refusal makes the error of a call that was not executed for want of room for so many bytes.
func (s *share) refusal(bytes int64) *status.Error {
	return refusedf(status.ResourceExhausted, "%s", s.shortage(bytes))
}

// lost makes the error of a call whose result, of so many bytes, there was no room for.
func (s *share) lost(function string, bytes int64) *status.Error {
	return status.Errorf(status.ResourceExhausted, "the result of %s is dropped: %s", function, s.shortage(bytes)).With(status.OutcomeExecutedResultLost)
}

// shortage says which limits there are, how far they are used, and what raises them.
func (s *share) shortage(bytes int64) string {
	b := s.budget
	return fmt.Sprintf("there is no room for %d bytes beside %s: those of this user take %d (limit %s_bytes_per_user_max, %d), all take %d (limit %s_bytes_max, %d); the server's option %s raises them to at most %d and %d",
		bytes, b.what, s.held.Load(), b.kind, b.perUserMax, b.held.Load(), b.kind, b.max, b.option, b.perUserCeiling, b.ceiling)
}
