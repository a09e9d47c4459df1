package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/cputime"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// processCPU returns the CPU time a process has used.
func processCPU(pid int) (time.Duration, error) { return cputime.Of(pid) }

// cpuOf returns the CPU time that a process, all that come from it and what works for it
// have used; none for no process.
func cpuOf(p *process.Process) (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	behind, err := cpuOf(p.Behind)
	if err != nil {
		return 0, err
	}
	used, err := treeCPU(p.PID())
	return behind + used, err
}

// treeCPU returns the CPU time that a process and all that come from it have used, those
// that have ended included. Who ends meanwhile may be missed, and is not counted twice:
// the next look has it.
func treeCPU(pid int) (time.Duration, error) {
	used, err := processCPU(pid)
	if err != nil {
		return 0, err
	}
	_, ended, err := cpuTicks(pid)
	if err != nil {
		return 0, err
	}
	used += time.Duration(ended) * tick
	children, err := childrenOf(pid)
	if err != nil {
		return 0, err
	}
	for _, child := range children {
		below, err := treeCPU(child)
		if err != nil && !hasEnded(err) {
			return 0, err
		}
		used += below
	}
	return used, nil
}

// hasEnded reports whether an error is that a process is no more.
func hasEnded(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// threadsOf returns the numbers of a process's threads.
func threadsOf(pid int) (threads []int, err error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, entry := range entries {
		thread, err := strconv.Atoi(entry.Name())
		if err != nil {
			return nil, err
		}
		threads = append(threads, thread)
	}
	return threads, err
}

// childrenOf returns the processes that a process has started, from any of its threads,
// and that live.
func childrenOf(pid int) (children []int, err error) {
	threads, err := threadsOf(pid)
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, thread))
		if err != nil && !hasEnded(err) {
			return nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
	}
	return children, err
}

// residentBytes returns a process's resident memory.
func residentBytes(pid int) (int64, error) {
	kib, err := sumIn(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	return int64(kib) << 10, err
}

// sumIn adds up what a file of lines "NAME: NUMBER..." has of these names, all of which have to
// be there.
func sumIn(path string, names ...string) (sum uint64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		name, values, _ := strings.Cut(line, ":")
		if !slices.Contains(names, strings.TrimSpace(name)) {
			continue
		}
		found++
		for value := range strings.FieldsSeq(strings.TrimSuffix(strings.TrimSpace(values), "kB")) {
			count, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", path, err)
			}
			sum += count
		}
	}
	if found != len(names) {
		return 0, fmt.Errorf("%s does not tell %s", path, strings.Join(names, " and "))
	}
	return sum, nil
}

// tick is the unit of the times in /proc/PID/stat: sysconf(_SC_CLK_TCK), which is 100 on
// all that Go runs on.
const tick = 10 * time.Millisecond

// cpuTicks returns the clock ticks a process has used, as ps and top see it, and those
// of its children that have ended.
func cpuTicks(pid int) (own, ended int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name in brackets may hold anything; the 12th to 15th field after it are
	// utime and stime, and cutime and cstime.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks [4]int64
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return ticks[0] + ticks[1], ticks[2] + ticks[3], nil
}

// allowDescriptors raises this process's limit of open files, and with it that
// of the processes it starts.
func allowDescriptors(count uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur, limit.Max = max(limit.Cur, count), max(limit.Max, count)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot open %d files at a time: %w; raise the hard limit (ulimit -Hn %d)", count, err, count)
	}
	return nil
}
