// Package monotonic reads the machine's monotonic clock in a form that
// processes can compare: CLOCK_MONOTONIC since boot. Deadlines on the wire are
// absolute on it.
package monotonic

import (
	"time"

	"golang.org/x/sys/unix"
)

// comparisons is how often New compares the two clocks. A thread may be held up
// between reading one and the other; hardly ever that often in a row.
const comparisons = 8

// A Clock converts Go's monotonic time to CLOCK_MONOTONIC. The runtime reads
// the same clock but keeps its zero to itself; comparing them at the start
// finds the distance. It is never behind CLOCK_MONOTONIC, and ahead by less
// than reading a clock takes. Immutable, usable by any number of goroutines.
type Clock struct {
	start   time.Time
	startNs uint64
}

// New returns a clock.
func New() Clock {
	best, bestGap := compare()
	for range comparisons - 1 {
		if clock, gap := compare(); gap < bestGap {
			best, bestGap = clock, gap
		}
	}
	return best
}

// compare reads both clocks; the clock that it makes is ahead by at most gap.
func compare() (_ Clock, gap time.Duration) {
	var now unix.Timespec
	start := time.Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		// The kernel has had this clock since 2.6; without it nothing runs.
		panic("nearcall: clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return Clock{start: start, startNs: uint64(now.Nano())}, time.Since(start)
}

// Ns returns nanoseconds since boot.
func (c Clock) Ns() uint64 { return c.startNs + uint64(time.Since(c.start)) }

// Ms returns milliseconds since boot.
func (c Clock) Ms() uint64 { return c.Ns() / 1e6 }

// Time returns the moment at which Ns returns so much. Its time of day is that of a clock
// which nobody has set since New.
func (c Clock) Time(ns uint64) time.Time { return c.start.Add(time.Duration(ns - c.startNs)) }
