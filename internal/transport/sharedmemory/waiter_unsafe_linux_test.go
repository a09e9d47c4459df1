package sharedmemory_test

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// TestOnlySpinnersMoveAway: a caller moves to another CPU when it is about to
// spin for a server that sleeps, and not when it is about to sleep itself.
func TestOnlySpinnersMoveAway(t *testing.T) {
	const waits, probes = 64 * 200, 200
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 {
		t.Fatalf("%d CPUs may be used, the test needs 2: %v", allowed.Count(), err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, pays := range map[string]bool{"spinning pays": true, "spinning does not pay": false} {
		caller, server := pair(t, testGeometry)
		if !server.FallAsleep() {
			t.Fatal("a frame is there")
		}
		clock := monotonic.New()
		w := sharedmemory.NewCallerWaiter(caller, clock, address.SpinAuto, time.Microsecond)
		if !pays {
			// What was waited for first came long after the beginning of all times.
			w.Awake()
		}
		moves := 0
		for range waits {
			before := thisCPU(t)
			w.Await(clock.Ns(), clock.Ns(), func() bool { return true })
			if thisCPU(t) != before {
				moves++
			}
		}
		w.Close()
		if pays != (moves > probes/2) {
			t.Errorf("%s: %d moves to another CPU in %d probes", name, moves, probes)
		}
	}
}

func thisCPU(t *testing.T) (cpu uint32) {
	t.Helper()
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	return cpu
}
