package handoff

import "sync"

// A tally counts something for each user.
type tally struct {
	mu     sync.Mutex
	counts map[uint32]int
}

func newTally() *tally { return &tally{counts: make(map[uint32]int)} }

// enter counts one more, unless the user has as many as it may. It reports whether it
// did.
func (t *tally) enter(user uint32, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[user] >= most {
		return false
	}
	t.counts[user]++
	return true
}

func (t *tally) leave(user uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[user]--; t.counts[user] == 0 {
		delete(t.counts, user)
	}
}
