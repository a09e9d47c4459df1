package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/cputime"
)

// processCPU returns the CPU time a process has used.
func processCPU(pid int) (time.Duration, error) { return cputime.Of(pid) }

// childrenOf returns the processes that a process has started and that live.
func childrenOf(pid int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var children []int
	for field := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}

// residentBytes returns a process's resident memory.
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d tells no VmRSS", pid)
}

// cpuTicks returns the clock ticks a process has used, as ps and top see it.
func cpuTicks(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in brackets may hold anything; utime and stime are the 12th and
	// 13th field after it.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return user + system, err
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
