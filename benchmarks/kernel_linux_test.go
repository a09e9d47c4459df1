package main

import (
	"io"
	"math"
	"net"
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

func TestTCPIsWorkForTheNetwork(t *testing.T) {
	const roundTrips = 200
	before, err := networkSoftirqs()
	check(t, err)
	exchange(t, roundTrips)
	after, err := networkSoftirqs()
	check(t, err)
	if after < before+roundTrips {
		t.Errorf("%d softirqs for %d round trips", after-before, roundTrips)
	}
}

// exchange sends a byte to and fro over TCP.
func exchange(t *testing.T, roundTrips int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ended := make(chan struct{})
	defer func() { listener.Close(); <-ended }()
	go func() {
		defer close(ended)
		if there, err := listener.Accept(); err == nil {
			_, _ = io.Copy(there, there)
			there.Close()
		}
	}()
	here, err := net.Dial("tcp", listener.Addr().String())
	check(t, err)
	defer here.Close()
	one := []byte{1}
	for range roundTrips {
		if _, err := here.Write(one); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(here, one); err != nil {
			t.Fatal(err)
		}
	}
}

func TestThreadsThatEndAreToldOf(t *testing.T) {
	w := watchKernel([]*process.Process{thisProcess(t)})
	defer w.close()
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
	w := watchKernel([]*process.Process{caller})
	defer w.close()
	r, err := measure([]*process.Process{caller}, nobody, w, turn{length: time.Millisecond})
	check(t, err)
	after, err := contextSwitches(caller.PID())
	check(t, err)
	if counted, all := r.kernel.contextSwitches, after-before; counted == 0 || counted > all/2 {
		t.Errorf("%d of %d switches are counted", counted, all)
	}
}
