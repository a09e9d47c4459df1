// Package nexts ties the functions Next that interceptors are given to the call that they go
// on with. What a call is made of is used again by other calls, and an interceptor may keep
// its Next, or leave it running in another goroutine.
package nexts

import "sync"

// A Guard belongs to what calls are made of, and serves one call after the other. Its zero
// value is ready. Only Begin and End must not be used by several goroutines at a time.
type Guard struct {
	mu      sync.Mutex
	round   uint64
	claimed bool
	running sync.WaitGroup
}

// Begin begins a call, and returns the number that its functions Next enter with.
func (g *Guard) Begin() (round uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.round++
	g.claimed = false
	return g.round
}

// Enter reports whether the call of this number goes on. If so, Leave must follow, and the
// call does not end before.
func (g *Guard) Enter(round uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.round != round {
		return false
	}
	g.running.Add(1)
	return true
}

// Leave is the end of what Enter began.
func (g *Guard) Leave() { g.running.Done() }

// Claim reports true once for each call: to the one that makes it.
func (g *Guard) Claim() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.claimed
	g.claimed = true
	return first
}

// End ends the call: from now on none enters, and those that have entered have left when it
// returns.
func (g *Guard) End() {
	g.mu.Lock()
	g.round++
	g.mu.Unlock()
	g.running.Wait()
}
