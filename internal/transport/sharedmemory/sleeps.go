package sharedmemory

import (
	"sync/atomic"
	"time"
)

// A cause is why a side sleeps instead of looking at its ring.
type cause uint8

const (
	nothingCame     cause = iota // for as long as a sleep costs
	peerAsleep                   // whoever is waited for has to be woken first
	inVain                       // looking did not pay when it was tried last
	crowded                      // others want the CPUs, and have their turn
	oneProcessor                 // and the peer is not known to run on another
	sharedProcessor              // both sides were on one CPU
	processTurn                  // the rest of its process has the one CPU meanwhile
	noPlace                      // others of this process look already
	spinOff
	causes // how many there are
)

var causeNames = [causes]string{"nothing_came", "peer_asleep", "in_vain", "crowded", "one_processor", "shared_processor", "process_turn", "no_place", "off"}

// Sleeps counts how often sides slept, by cause, and for how long callers did. Its zero
// value is ready, for any number of waiters.
type Sleeps struct {
	counts   [causes]atomic.Uint64
	asleepNs atomic.Uint64
}

// ByCause returns how often; causes that never were are left out.
func (s *Sleeps) ByCause() map[string]uint64 {
	all := map[string]uint64{}
	for i := range s.counts {
		if n := s.counts[i].Load(); n > 0 {
			all[causeNames[i]] = n
		}
	}
	return all
}

// Asleep returns for how long callers slept that waited for a reply.
func (s *Sleeps) Asleep() time.Duration { return time.Duration(s.asleepNs.Load()) }
