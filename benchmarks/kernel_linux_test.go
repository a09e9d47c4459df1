package main

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// Every wait of a thread is a switch.
func TestContextSwitches(t *testing.T) {
	const sleeps = 20
	before, err := contextSwitches(os.Getpid())
	check(t, err)
	for range sleeps {
		time.Sleep(time.Millisecond)
	}
	after, err := contextSwitches(os.Getpid())
	check(t, err)
	if after < before+sleeps {
		t.Errorf("%d switches for %d waits", after-before, sleeps)
	}
}

func TestThreadsThatEndAreToldOf(t *testing.T) {
	w := &kernelWatch{processes: []*process.Process{thisProcess(t)}}
	check(t, w.begin())
	w.before.contextSwitches = math.MaxUint64
	if work, err := w.end(); err == nil {
		t.Errorf("got %+v", work)
	}
}

// A caller waits whenever the pipe is full that its samples go through.
func TestSendingSamplesIsNotCounted(t *testing.T) {
	t.Setenv(asCaller, "1")
	caller, err := process.Start(os.Args[0], "many samples")
	check(t, err)
	t.Cleanup(caller.Stop)
	before, err := contextSwitches(caller.PID())
	check(t, err)
	w := &kernelWatch{processes: []*process.Process{caller}}
	r, err := measure([]*process.Process{caller}, nobody, w, turn{length: time.Millisecond})
	check(t, err)
	after, err := contextSwitches(caller.PID())
	check(t, err)
	if counted, all := r.kernel.contextSwitches, after-before; counted == 0 || counted > all/2 {
		t.Errorf("%d of %d switches are counted", counted, all)
	}
}

// thisProcess is the test's own.
func thisProcess(t *testing.T) *process.Process {
	t.Helper()
	own, err := os.FindProcess(os.Getpid())
	check(t, err)
	t.Cleanup(func() { _ = own.Release() })
	return process.Of(own)
}
