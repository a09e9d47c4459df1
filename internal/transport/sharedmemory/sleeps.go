package sharedmemory

import (
	"sync/atomic"
	"time"
)

// A cause says why a side sleeps instead of looking at its ring.
type cause uint8

const (
	nothingCame     cause = iota // no frame came for as long as a sleep costs
	peerAsleep                   // the peer has to be woken first
	inVain                       // looking did not pay the last time
	crowded                      // others want the CPUs, and are given their turn
	oneProcessor                 // there is one CPU, and the peer is not known to run on another
	sharedProcessor              // both sides were on one CPU
	processTurn                  // the process has one CPU, and the rest of it has its turn
	noPlace                      // others of this process already look at theirs
	spinOff
	causes // how many there are
)

var causeNames = [causes]string{"nothing_came", "peer_asleep", "in_vain", "crowded", "one_processor", "shared_processor", "process_turn", "no_place", "off"}

// Sleeps counts how often sides slept, by cause, and for how long callers did. Its zero
// value is ready for use by any number of waiters.
type Sleeps struct {
	counts   [causes]atomic.Uint64
	asleepNs atomic.Uint64
}

// ByCause returns how often sides slept, by cause. Causes that never occurred are left
// out.
func (s *Sleeps) ByCause() map[string]uint64 {
	all := map[string]uint64{}
	for i := range s.counts {
		if n := s.counts[i].Load(); n > 0 {
			all[causeNames[i]] = n
		}
	}
	return all
}

// Asleep returns how long callers that waited for a reply have slept in total.
func (s *Sleeps) Asleep() time.Duration { return time.Duration(s.asleepNs.Load()) }
