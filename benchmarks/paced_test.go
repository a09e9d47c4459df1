package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// What the callers of testdata/timed.* do.
const (
	stall    = 30 * time.Millisecond
	stallsAt = 50
)

// timedCallers are callers in languages that have no other test of how they pace and count
// calls; mode is "call", "wake" or "clock".
func timedCallers(t *testing.T) map[string]func(mode string) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "timed")
	compile(t, program, "-Icallers", "-Wl,--wrap=clock_gettime,--wrap=clock_nanosleep", "testdata/timed.c", "callers/caller.c", "callers/protocol.c")
	return map[string]func(mode string) []string{
		"C":      func(mode string) []string { return []string{program, mode, "", "0"} },
		"Python": func(mode string) []string { return []string{"python3", "-B", "testdata/timed.py", mode} },
	}
}

// compile makes a program of C.
func compile(t *testing.T, program string, arguments ...string) {
	t.Helper()
	arguments = append([]string{"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-o", program}, arguments...)
	if said, err := exec.Command("gcc", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

// started starts a process that ends with the test.
func started(t *testing.T, command ...string) *process.Process {
	t.Helper()
	// A process ends with the thread that started it.
	runtime.LockOSThread()
	p, err := process.Start(command...)
	check(t, err)
	t.Cleanup(p.Stop)
	return p
}

// A call that takes long counts for those that it holds up, also when the round is over
// by then: all that are due are made, and timed from when they were due.
func TestCallersMakeAllCallsThatAreDue(t *testing.T) {
	const due, pace = 60, 2 * time.Millisecond
	for language, command := range timedCallers(t) {
		t.Run(language, func(t *testing.T) {
			caller := started(t, command("call")...)
			r, err := measure([]*process.Process{caller}, clockOf(nil), nil, turn{length: due * pace, perSecond: int(time.Second / pace)})
			if err != nil || r.calls != due || len(r.samples) != due {
				t.Fatalf("%d of %d calls were made, with %d samples; %v", r.calls, due, len(r.samples), err)
			}
			// Samples are in order: the longest is the call itself, then those behind it.
			for behind := range due - stallsAt {
				took, least := time.Duration(r.samples[due-1-behind]), stall-time.Duration(behind)*pace
				if took < least {
					t.Errorf("the call that was due %d after the long one took %v, at least %v were expected", behind, took, least)
				}
			}
		})
	}
}

// A machine that stalls while a caller sleeps holds up the call that is due then.
func TestCallersWokenLateTimeACallFromWhenItWasDue(t *testing.T) {
	const pace = 100 * time.Millisecond // far longer than it takes to be told: it sleeps
	for language, command := range timedCallers(t) {
		t.Run(language, func(t *testing.T) {
			caller := started(t, command("wake")...)
			r, err := measure([]*process.Process{caller}, clockOf(nil), nil, turn{length: pace, perSecond: int(time.Second / pace)})
			if err != nil || r.calls != 1 || time.Duration(r.samples[0]) < stall {
				t.Errorf("%d calls took %v ns, %v", r.calls, r.samples, err)
			}
		})
	}
}
