package main

import (
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// kernelWork is what the kernel did for the calls of a round.
type kernelWork struct{ contextSwitches, softirqs uint64 }

// A kernelWatch counts the kernel's work for processes from begin to end. nil counts
// nothing.
type kernelWatch struct {
	processes []*process.Process
	before    kernelWork
}

func (w *kernelWatch) begin() (err error) {
	if w != nil {
		w.before, err = w.counts()
	}
	return err
}

func (w *kernelWatch) end() (kernelWork, error) {
	if w == nil {
		return kernelWork{}, nil
	}
	after, err := w.counts()
	if err == nil && after.contextSwitches < w.before.contextSwitches {
		err = errors.New("context switches: threads have ended and taken theirs along")
	}
	return kernelWork{after.contextSwitches - w.before.contextSwitches, after.softirqs - w.before.softirqs}, err
}

// counts reads all counters.
func (w *kernelWatch) counts() (counts kernelWork, err error) {
	for _, p := range w.processes {
		switches, err := contextSwitches(p.PID())
		if err != nil {
			return counts, err
		}
		counts.contextSwitches += switches
	}
	counts.softirqs, err = networkSoftirqs()
	return counts, err
}

// contextSwitches returns those of all threads of a process. Threads that end take
// theirs along; those of Go programs stay.
func contextSwitches(pid int) (sum uint64, err error) {
	threads, err := threadsOf(pid)
	for _, thread := range threads {
		switches, err := sumIn(fmt.Sprintf("/proc/%d/task/%d/status", pid, thread), "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
		if err != nil && !hasEnded(err) {
			return 0, err
		}
		sum += switches
	}
	return sum, err
}

// networkSoftirqs returns how often the machine has worked for the network, whoever
// it was for.
func networkSoftirqs() (uint64, error) { return sumIn("/proc/softirqs", "NET_RX", "NET_TX") }

// addKernelWork adds what the kernel did for each call, where it was counted.
func (m measuredRow) addKernelWork(row *result.Row) {
	if !m.plan.counted {
		return
	}
	var switches, softirqs, calls float64
	for _, r := range m.rounds {
		switches += float64(r.kernel.contextSwitches)
		softirqs += float64(r.kernel.softirqs)
		calls += float64(r.calls)
	}
	switches, softirqs = rounded(switches/calls, 4), rounded(softirqs/calls, 4)
	row.ContextSwitchesPerCall, row.SoftirqsPerCall = &switches, &softirqs
}
