package sharedmemory

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
)

const (
	wakeTrials = 11
	// A pause between measurements: CPUs that were idle for a moment take longer to
	// wake, and callers pause too.
	wakePause = time.Millisecond
	// With a shorter limit a spin would often end just before the reply of a server
	// that had to be woken.
	spinMin = 20 * time.Microsecond
	spinMax = wire.SpinUsMax * time.Microsecond
)

// SpinLimit measures for how long spinning pays on this machine. That is the time it
// takes both sides of a call to fall asleep and to be woken, which spinning saves. The
// measurement takes a hundredth of a second.
//
// Two threads answer each other through a socket, in system calls that block.
// Goroutines would not do: the runtime lets two goroutines that wait for each other
// take turns on one thread, which two processes cannot do.
func SpinLimit() time.Duration {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return spinMax
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		answerBytes(pair[1])
	}()
	trials := pingBytes(pair[0])
	// Closing is not enough if a host has forked meanwhile, because the child has a
	// copy.
	unix.Shutdown(pair[0], unix.SHUT_RDWR)
	<-answered
	unix.Close(pair[0])
	unix.Close(pair[1])
	if len(trials) < wakeTrials {
		return spinMax
	}
	slices.Sort(trials)
	return max(spinMin, min(2*trials[wakeTrials/2], spinMax))
}

// pingBytes returns how long each round trip took.
func pingBytes(fd int) (trials []time.Duration) {
	var b [1]byte
	for range wakeTrials {
		time.Sleep(wakePause)
		begin := time.Now()
		if n, err := unix.Write(fd, b[:]); n != 1 || err != nil {
			return nil
		}
		if n, err := unix.Read(fd, b[:]); n != 1 || err != nil {
			return nil
		}
		trials = append(trials, time.Since(begin))
	}
	return trials
}

func answerBytes(fd int) {
	var b [1]byte
	for {
		if n, err := unix.Read(fd, b[:]); n != 1 || err != nil {
			return
		}
		if n, err := unix.Write(fd, b[:]); n != 1 || err != nil {
			return
		}
	}
}
