package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// kernelWork is what the kernel and the processors did for the calls of a round.
type kernelWork struct {
	contextSwitches uint64
	softirqs        uint64
	// Of the processor's counters by name, of user and kernel. nil with noPerf, which
	// says why there are none.
	perf   map[string]uint64
	noPerf error
}

// counted lets run make calls between these processes, and counts the kernel's work.
func counted(processes []*process, run func() (round, error)) (round, error) {
	perf, noPerf := openPerf(processes)
	defer perf.close()
	before, err := kernelWorkOf(processes)
	if err != nil {
		return round{}, err
	}
	r, err := run()
	if err != nil {
		return r, err
	}
	after, err := kernelWorkOf(processes)
	if err != nil {
		return r, err
	}
	r.kernel = kernelWork{
		contextSwitches: after.contextSwitches - before.contextSwitches,
		softirqs:        after.softirqs - before.softirqs,
		noPerf:          noPerf,
	}
	if noPerf == nil {
		r.kernel.perf, r.kernel.noPerf = perf.read()
	}
	return r, nil
}

func kernelWorkOf(processes []*process) (kernelWork, error) {
	var work kernelWork
	for _, p := range processes {
		switches, err := contextSwitches(p.pid())
		if err != nil {
			return work, err
		}
		work.contextSwitches += switches
	}
	var err error
	work.softirqs, err = networkSoftirqs()
	return work, err
}

// contextSwitches returns those of all threads of a process. Threads that end take
// theirs along; those of Go programs stay.
func contextSwitches(pid int) (uint64, error) {
	folder := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(folder)
	if err != nil {
		return 0, err
	}
	var sum uint64
	for _, task := range tasks {
		text, err := os.ReadFile(folder + "/" + task.Name() + "/status")
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if !strings.HasSuffix(name, "voluntary_ctxt_switches") {
				continue
			}
			count, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return 0, err
			}
			sum += count
		}
	}
	return sum, nil
}

// networkSoftirqs returns how often the machine has worked for the network, whoever
// it was for.
func networkSoftirqs() (uint64, error) {
	text, err := os.ReadFile("/proc/softirqs")
	if err != nil {
		return 0, err
	}
	var sum uint64
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "NET_RX:" && fields[0] != "NET_TX:" {
			continue
		}
		for _, field := range fields[1:] { // one for each CPU
			count, err := strconv.ParseUint(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/softirqs: %w", err)
			}
			sum += count
		}
	}
	return sum, nil
}

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
