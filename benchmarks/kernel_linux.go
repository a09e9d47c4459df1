package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// kernelWork is what the kernel and the processors did for the calls of a round.
type kernelWork struct {
	contextSwitches uint64
	softirqs        uint64
	// Of the processor's counters by name, of user and kernel. nil with noPerf, which
	// says why there are none.
	perf   map[string]float64
	noPerf error
}

// A kernelWatch counts the kernel's work for processes from begin to end. nil counts
// nothing.
type kernelWatch struct {
	processes []*process.Process
	perf      perfCounterSet
	noPerf    error
	before    kernelCounts
}

// kernelCounts are what counters show at one moment.
type kernelCounts struct {
	contextSwitches, softirqs uint64
	perf                      []perfCount
}

// watchKernel prepares to count. The caller closes it.
func watchKernel(processes []*process.Process) *kernelWatch {
	w := &kernelWatch{processes: processes}
	w.perf, w.noPerf = openPerf(processes, perfEvents, unix.PerfEventOpen)
	return w
}

func (w *kernelWatch) close() {
	if w != nil {
		w.perf.close()
	}
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
	if err != nil {
		return kernelWork{}, err
	}
	if after.contextSwitches < w.before.contextSwitches {
		return kernelWork{}, errors.New("context switches: threads have ended and taken theirs along")
	}
	work := kernelWork{
		contextSwitches: after.contextSwitches - w.before.contextSwitches,
		softirqs:        after.softirqs - w.before.softirqs,
		noPerf:          w.noPerf,
	}
	if work.noPerf == nil {
		work.perf, work.noPerf = w.perf.between(w.before.perf, after.perf)
	}
	return work, nil
}

// counts reads all counters.
func (w *kernelWatch) counts() (kernelCounts, error) {
	var counts kernelCounts
	for _, p := range w.processes {
		switches, err := contextSwitches(p.PID())
		if err != nil {
			return counts, err
		}
		counts.contextSwitches += switches
	}
	var err error
	if counts.softirqs, err = networkSoftirqs(); err != nil {
		return counts, err
	}
	if w.noPerf == nil {
		counts.perf, err = w.perf.read()
	}
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
