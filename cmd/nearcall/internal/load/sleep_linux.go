package load

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// timerGrain is how late a timer of Go's may be; the kernel's own are some tens of
// microseconds late.
const timerGrain = 2 * time.Millisecond

// sleepUntil sleeps until a time, or until ctx ends.
func sleepUntil(ctx context.Context, until time.Time) {
	if length := time.Until(until) - timerGrain; length > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(length):
		}
	}
	for length := time.Until(until); length > 0; length = time.Until(until) {
		rest := unix.NsecToTimespec(int64(length))
		if err := unix.Nanosleep(&rest, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}
