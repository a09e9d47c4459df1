package server

import (
	"fmt"
	"sync/atomic"

	"github.com/nearcall/nearcall/status"
)

// So much of each connection is not counted, because counting must not slow quick calls
// down.
const (
	inputBytesFree  = 4 << 10
	outputBytesFree = 16 << 10
	// The size of the buffer, as it is lent, that holds these bytes.
	outputBytesUncounted = outputBytesFree + pooledBytesExtra
	outputBytesStep      = 64 << 10

	budgetFullEighth = 6 // a budget that was full has room again when fewer eighths are used
	// Buffers that connections keep only for later use may take up this part of a
	// share, and of a budget, so that many idle connections leave room for others.
	sparePart = 4
	// A user that holds less than this part of a share is not refused because others
	// hold too much.
	smallPart = 64
)

// apart keeps fields that every request reads, above all full, on other cache lines
// than those that are written with every reply that is counted.
type apart [64]byte

// A budget bounds how many bytes may be held for peers in total. Each user has a share
// of it.
type budget struct {
	kind   string // "input" or "output", as in the names of the limits
	option string // the option that raises them
	what   string // what is held, in words

	max, perUserMax         int64
	ceiling, perUserCeiling int64
	full                    atomic.Bool
	_                       apart
	held                    atomic.Int64
	promised                atomic.Int64 // the part that is for replies of calls that have not returned
	queue                   queue
}

// A share is what a budget holds for one user. The zero value, which users that are not
// admitted have, takes nothing.
type share struct {
	budget *budget
	// exempt is set for users that others must not be able to shut out.
	exempt   bool
	full     atomic.Bool
	_        apart
	held     atomic.Int64
	promised atomic.Int64

	// The claims that wait for room, and the bytes of the results among them. queue.mu
	// guards all three.
	results  []*claim
	requests []*claim
	late     int64
}

// take counts bytes and reports true, unless that would exceed the share or the budget.
func (s *share) take(bytes int64) bool {
	if s.budget == nil {
		return false
	}
	if !raise(&s.held, bytes, s.budget.perUserMax) {
		s.full.Store(true)
		return false
	}
	if !raise(&s.budget.held, bytes, s.budgetMax()) {
		s.held.Add(-bytes)
		s.budget.full.Store(true)
		return false
	}
	return true
}

// budgetMax returns what all users may hold when this one takes more.
func (s *share) budgetMax() int64 {
	if s.exempt {
		return s.budget.max + s.budget.perUserMax
	}
	return s.budget.max
}

// hasRoom reports whether there is room for so many bytes now.
func (s *share) hasRoom(bytes int64) bool {
	b := s.budget
	return b != nil && s.held.Load()+bytes <= b.perUserMax && b.held.Load()+bytes <= s.budgetMax()
}

// allows reports whether a user may hold so many bytes at all.
func (s *share) allows(bytes int64) bool {
	return s.budget != nil && bytes <= min(s.budget.perUserMax, s.budget.max)
}

// takeSpare is take for buffers that can be done without.
func (s *share) takeSpare(bytes int64) bool {
	b := s.budget
	return b != nil && s.held.Load()+bytes <= b.perUserMax/sparePart && b.held.Load()+bytes <= b.max/sparePart && s.take(bytes)
}

// raise adds to a counter that must not exceed max, and reports whether it could.
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

// count counts bytes that are already held.
func (s *share) count(bytes int64) {
	s.held.Add(bytes)
	s.budget.held.Add(bytes)
}

// giveBack uncounts bytes that take or count has counted.
func (s *share) giveBack(bytes int64) {
	if bytes > 0 {
		s.count(-bytes)
		s.budget.grant()
	}
}

// isFull reports whether bytes were refused and most of what was held then still is. A
// full budget concerns only users that hold something themselves.
func (s *share) isFull() bool {
	return (s.full.Load() || s.budget.full.Load()) && s.isStillFull()
}

func (s *share) isStillFull() bool {
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

// refusal returns the error for a call that was not executed because there is no room
// for so many bytes.
func (s *share) refusal(bytes int64) *status.Error {
	return refusedf(status.ResourceExhausted, "%s", s.shortage(bytes))
}

// lost returns the error for a call whose result, of so many bytes, had to be dropped
// for want of room.
func (s *share) lost(function string, bytes int64) *status.Error {
	return status.Errorf(status.ResourceExhausted, "the result of %s is dropped: %s", function, s.shortage(bytes)).With(status.OutcomeExecutedResultLost)
}

// shortage says what the limits are, how much of them is used, and which option raises
// them.
func (s *share) shortage(bytes int64) string {
	b := s.budget
	return fmt.Sprintf("there is no room for %d bytes beside %s: those of this user take %d (limit %s_bytes_per_user_max, %d), all take %d (limit %s_bytes_max, %d); the server's option %s raises them to at most %d and %d",
		bytes, b.what, s.held.Load(), b.kind, b.perUserMax, b.held.Load(), b.kind, b.max, b.option, b.perUserCeiling, b.ceiling)
}
