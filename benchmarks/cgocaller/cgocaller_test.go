package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A goroutine that was only started lies in a queue, and all processors are free.
func TestLoadRunsWhenSpinReturns(t *testing.T) {
	for busy := range runtime.GOMAXPROCS(0) + 1 {
		load := spin(busy)
		if running := load.running.Load(); running != int64(busy) {
			t.Errorf("%d of %d run", running, busy)
		}
		load.stop()
		if running := load.running.Load(); running != 0 {
			t.Errorf("%d of %d run after they were stopped", running, busy)
		}
	}
}

func TestThreadKnowsWhetherItHasCalled(t *testing.T) {
	ask := func(times int) []bool {
		answers := make(chan []bool)
		go func() {
			runtime.LockOSThread() // it ends with the goroutine
			var all []bool
			for range times {
				all = append(all, threadHasCalled())
			}
			answers <- all
		}()
		return <-answers
	}
	for range 3 {
		if got := ask(2); got[0] || !got[1] {
			t.Errorf("a new thread has called: %v", got)
		}
	}
}

// The kernel gives the number of a thread that has ended again when it has used all,
// which calls on new threads are not to notice.
func TestFirstCallsDoNotRunOut(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	numbers = min(numbers, 40_000) // where there are more, they take too long to use
	for n := range numbers + 10 {
		if _, ok, err := firstCallFromStart(); !ok || err != nil {
			t.Fatalf("call %d of %d: %v, %v", n, numbers, ok, err)
		}
	}
}

func TestRunEndsInTime(t *testing.T) {
	const length = 20 * time.Millisecond
	failure := errors.New("it fails")
	for _, c := range []struct {
		name string
		call calling.Timed
		want error
	}{
		{"calls", func() (uint64, bool, error) { return 1, true, nil }, nil},
		{"calls of another kind", func() (uint64, bool, error) { return 1, false, nil }, calling.ErrNoCall},
		{"a call that fails", func() (uint64, bool, error) { return 0, false, failure }, failure},
	} {
		report, err := c.call.Repeat(length, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if c.want == nil && (report.Elapsed < length || len(report.Samples[0]) < 100) {
			t.Errorf("%s: %d calls in %s", c.name, len(report.Samples[0]), report.Elapsed)
		}
	}
}

func TestEveryModeMeasures(t *testing.T) {
	for _, name := range []string{"later", "first", "first-alone", "out-one", "out-ack", "out-md5"} {
		for busy := range runtime.GOMAXPROCS(0) + 1 {
			m, err := open(name, "none", 0)
			if err != nil {
				t.Fatal(err)
			}
			m.busy = busy
			for range 2 { // the second uses the first's memory
				checkRun(t, name, &m)
			}
		}
	}
	if _, err := open("sooner", "none", 0); err == nil {
		t.Error("there is a mode sooner")
	}
}

func checkRun(t *testing.T, name string, m *mode) {
	t.Helper()
	const length = 5 * time.Millisecond
	report, err := m.measure(protocol.Command{Length: length})
	if err != nil {
		t.Fatalf("%s with %d busy: %v", name, m.busy, err)
	}
	var sum time.Duration
	for _, ns := range report.Samples[0] {
		sum += time.Duration(ns)
	}
	if len(report.Samples[0]) == 0 || sum <= 0 || sum > report.Elapsed || report.Elapsed < length {
		t.Errorf("%s with %d busy: %d calls of %s in %s", name, m.busy, len(report.Samples[0]), sum, report.Elapsed)
	}
	// What the load uses is none of the calls'.
	if counted := report.CPU != protocol.CPUNotCounted; counted != (m.busy == 0) {
		t.Errorf("%s with %d busy: CPU %v", name, m.busy, report.CPU)
	}
}
