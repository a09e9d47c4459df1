// Package monotonic reads the machine's monotonic clock in a form that
// processes can compare: CLOCK_MONOTONIC since boot. Deadlines on the wire are
// absolute on it.
package monotonic

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Clock converts Go's monotonic time to CLOCK_MONOTONIC. The runtime reads
// the same clock but keeps its zero to itself; one system call at the start
// finds the distance. Immutable, usable by any number of goroutines.
type Clock struct {
	start   time.Time
	startNs uint64
}

// New returns a clock.
func New() Clock {
	var now unix.Timespec
	start := time.Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		// The kernel has had this clock since 2.6; without it nothing runs.
		panic("nearcall: clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return Clock{start: start, startNs: uint64(now.Nano())}
}

// Ns returns nanoseconds since boot.
func (c Clock) Ns() uint64 { return c.startNs + uint64(time.Since(c.start)) }

// Ms returns milliseconds since boot.
func (c Clock) Ms() uint64 { return c.Ns() / 1e6 }
