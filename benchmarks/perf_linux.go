package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// A perfEvent is what a counter counts.
type perfEvent struct {
	name   string
	kind   uint32
	config uint64
}

// perfEvents are the counters of processors that are read.
var perfEvents = []perfEvent{
	{"cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES},
	{"instructions", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS},
	{"cache_misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_MISSES},
	{"branch_misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES},
}

// A perfCounterSet counts every event in the threads of processes, also in those that they start
// later: files of counters, by event.
type perfCounterSet struct {
	events []perfEvent
	files  [][]int
}

// A perfCount is what a counter shows, and the time for which threads have run with it:
// wanted, and on the processor's counter. A processor has few, and gives them in turns
// where more are wanted.
type perfCount struct{ Events, WantedNS, CountedNS uint64 }

// perfOpen is unix.PerfEventOpen.
type perfOpen func(attributes *unix.PerfEventAttr, thread, cpu, group, flags int) (file int, err error)

// openPerf begins to count. It fails with errNotHere where the machine shows no
// counters, as most virtual ones, or does not to this user.
func openPerf(processes []*process.Process, events []perfEvent, open perfOpen) (set perfCounterSet, err error) {
	set = perfCounterSet{events, make([][]int, len(events))}
	for i, event := range events {
		attributes := unix.PerfEventAttr{
			Type: event.kind, Config: event.config, Bits: unix.PerfBitInherit, Size: unix.PERF_ATTR_SIZE_VER0,
			Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		}
		for _, p := range processes {
			threads, err := threadsOf(p.PID())
			for _, thread := range threads {
				file, failed := open(&attributes, thread, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
				if failed == nil {
					set.files[i] = append(set.files[i], file)
				} else if !errors.Is(failed, unix.ESRCH) { // of one that has ended
					err = noPerf(event, failed)
					break
				}
			}
			if err != nil {
				set.close()
				return perfCounterSet{}, err
			}
		}
	}
	return set, nil
}

// perfAbsent are the errors of machines without a counter, and of users who may not
// use it.
var perfAbsent = []error{unix.ENOENT, unix.ENODEV, unix.EOPNOTSUPP, unix.ENOSYS, unix.EACCES, unix.EPERM}

func noPerf(event perfEvent, err error) error {
	err = fmt.Errorf("the processor's counter of %s: %w", event.name, err)
	if slices.ContainsFunc(perfAbsent, func(absent error) bool { return errors.Is(err, absent) }) {
		return fmt.Errorf("%w: %w (kernel.perf_event_paranoid, or a virtual machine without counters)", errNotHere, err)
	}
	return err
}

// read returns what each counter shows, of all threads together.
func (s perfCounterSet) read() ([]perfCount, error) {
	counts := make([]perfCount, len(s.events))
	for i, files := range s.files {
		for _, file := range files {
			var text [24]byte
			if _, err := unix.Read(file, text[:]); err != nil {
				return nil, fmt.Errorf("the processor's counter of %s: %w", s.events[i].name, err)
			}
			var count perfCount
			if _, err := binary.Decode(text[:], binary.NativeEndian, &count); err != nil {
				return nil, err
			}
			counts[i].Events += count.Events
			counts[i].WantedNS += count.WantedNS
			counts[i].CountedNS += count.CountedNS
		}
	}
	return counts, nil
}

// between returns how many events there were from one reading to another, by name.
func (s perfCounterSet) between(before, after []perfCount) (map[string]float64, error) {
	events := map[string]float64{}
	for i, event := range s.events {
		count, err := before[i].until(after[i])
		if err != nil {
			return nil, fmt.Errorf("%w: the processor's counter of %s: %w", errNotHere, event.name, err)
		}
		events[event.name] = count
	}
	return events, nil
}

var errNeverCounted = errors.New("others had it all the time")

// until returns how many events there were until another reading. Of a counter that was
// had for a part of the time it is as many as if the rest of it had been alike.
func (c perfCount) until(after perfCount) (float64, error) {
	events, wanted, counted := float64(after.Events-c.Events), after.WantedNS-c.WantedNS, after.CountedNS-c.CountedNS
	switch {
	case wanted == 0: // no thread has run
		return 0, nil
	case counted == 0:
		return 0, errNeverCounted
	}
	return events * float64(wanted) / float64(counted), nil
}

func (s perfCounterSet) close() {
	for _, file := range slices.Concat(s.files...) {
		unix.Close(file)
	}
}

// perfCounters are what the counters say of each call of the rows that were counted.
func perfCounters(_ context.Context, rows []measuredRow) ([]result.Measure, error) {
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
				sums[name] += count
			}
		}
		for _, event := range perfEvents {
			all = append(all, measured(report.PerfMeasure(row.plan.name, event.name), "per call", rounded(sums[event.name]/calls, 1)))
		}
	}
	return all, nil
}
