package calling

import (
	"time"

	"golang.org/x/sys/unix"
)

// A timer is what paced callers wait by.
type timer interface {
	now() int64
	sleepUntil(dueNS int64)
}

// A clock tells the nanoseconds of CLOCK_MONOTONIC. It reads Go's clock, which is the
// same and asks the kernel nothing.
type clock struct {
	zero   time.Time
	zeroNS int64
}

func newClock() clock {
	zero := time.Now()
	var now unix.Timespec
	// It has no way to fail: the clock exists, the address is good.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return clock{zero, now.Nano()}
}

func (c clock) now() int64 { return c.zeroNS + int64(time.Since(c.zero)) }

// sleepUntil sleeps by the kernel's clock: Go's own timers are off by up to a
// millisecond, a whole pace.
func (clock) sleepUntil(dueNS int64) {
	due := unix.NsecToTimespec(dueNS)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &due, nil) != nil {
		continue
	}
}
