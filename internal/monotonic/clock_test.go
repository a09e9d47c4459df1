package monotonic_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/monotonic"
)

// TestClockIsTheKernels: clocks show what the kernel's shows. What is measured includes reading the kernel's clock twice.
func TestClockIsTheKernels(t *testing.T) {
	const clocks, aheadMax = 1000, time.Millisecond
	for range clocks {
		clock := monotonic.New()
		ahead := time.Duration(1<<63 - 1)
		for range 8 { // the smallest: this goroutine may be held up too
			before := kernelNs(t)
			shown := clock.Ns()
			after := kernelNs(t)
			if shown < before {
				t.Fatalf("behind by %d ns", before-shown)
			}
			ahead = min(ahead, time.Duration(int64(shown-after)))
		}
		if ahead > aheadMax {
			t.Fatalf("ahead by %v", ahead)
		}
	}
}

func kernelNs(t *testing.T) uint64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return uint64(now.Nano())
}
