package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// perfEvents are the counters of processors that are read.
var perfEvents = []struct {
	name   string
	config uint64
}{
	{"cycles", unix.PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", unix.PERF_COUNT_HW_INSTRUCTIONS},
	{"cache_misses", unix.PERF_COUNT_HW_CACHE_MISSES},
	{"branch_misses", unix.PERF_COUNT_HW_BRANCH_MISSES},
}

// perfCounter counts one event in the threads of processes, also in those that they
// start later.
type perfCounter struct {
	name  string
	files []int
}

type perfCounterSet []perfCounter

// openPerf begins to count. It fails where the machine shows no counters, as
// most virtual ones, or does not to this user.
func openPerf(processes []*process) (perfCounterSet, error) {
	var set perfCounterSet
	for _, event := range perfEvents {
		counter := perfCounter{name: event.name}
		attributes := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: event.config, Bits: unix.PerfBitInherit, Size: unix.PERF_ATTR_SIZE_VER0}
		for _, p := range processes {
			threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid()))
			if err != nil {
				return set, err
			}
			for _, thread := range threads {
				id, err := strconv.Atoi(thread.Name())
				if err != nil {
					return set, err
				}
				file, err := unix.PerfEventOpen(&attributes, id, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
				if err != nil {
					set.close()
					return nil, fmt.Errorf("%w: the processor's counter of %s: %w (kernel.perf_event_paranoid, or a virtual machine without counters)", errNotHere, event.name, err)
				}
				counter.files = append(counter.files, file)
			}
		}
		set = append(set, counter)
	}
	return set, nil
}

func (s perfCounterSet) read() (map[string]uint64, error) {
	counts := map[string]uint64{}
	for _, counter := range s {
		for _, file := range counter.files {
			var value [8]byte
			if _, err := unix.Read(file, value[:]); err != nil {
				return nil, fmt.Errorf("the processor's counter of %s: %w", counter.name, err)
			}
			counts[counter.name] += binary.NativeEndian.Uint64(value[:])
		}
	}
	return counts, nil
}

func (s perfCounterSet) close() {
	for _, counter := range s {
		for _, file := range counter.files {
			unix.Close(file)
		}
	}
}

// perfCounters are what the counters say of each call of the rows that were counted.
func perfCounters(rows []measuredRow) ([]result.Measure, error) {
	var all []result.Measure
	for _, row := range rows {
		if !row.plan.counted || row.failed != "" {
			continue
		}
		var calls float64
		sums := map[string]float64{}
		for _, r := range row.rounds {
			if r.kernel.noPerf != nil {
				return nil, r.kernel.noPerf
			}
			calls += float64(r.calls)
			for name, count := range r.kernel.perf {
				sums[name] += float64(count)
			}
		}
		for _, event := range perfEvents {
			all = append(all, result.Measure{Name: "perf_" + row.plan.name + "_" + event.name, Value: rounded(sums[event.name]/calls, 1), Unit: "per call"})
		}
	}
	return all, nil
}
