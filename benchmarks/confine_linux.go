package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// A confinement holds processes to a part of the machine.
type confinement interface {
	// enter prepares it and returns what a command is to be started with. leave undoes
	// it when the processes have ended. It fails with errNotHere where this machine
	// or this user cannot.
	enter() (prefix []string, leave func() error, err error)
	// pinning says to which part; "": to all of it.
	pinning() string
}

// onGoProcessors runs the Go programs of a group with so many processors of the
// scheduler.
type onGoProcessors int

func (onGoProcessors) pinning() string { return "" }

func (n onGoProcessors) enter() ([]string, func() error, error) {
	return []string{"env", fmt.Sprintf("GOMAXPROCS=%d", n)}, func() error { return nil }, nil
}

var errNotHere = errors.New("cannot be measured here")

// onOneCPU holds processes to the first CPU that this process may use.
type onOneCPU struct{}

func (onOneCPU) pinning() string { return "all processes on one CPU, by taskset" }

func (onOneCPU) enter() ([]string, func() error, error) {
	cpu, err := firstCPU()
	if err != nil {
		return nil, nil, err
	}
	return []string{"taskset", "--cpu-list", strconv.Itoa(cpu)}, func() error { return nil }, nil
}

// firstCPU is the first one that this process may use.
func firstCPU() (int, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return 0, err
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	return cpu, nil
}

// holdTo holds the threads of a process that runs, and those that they start, to a CPU.
func holdTo(p *process.Process, cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	threads, err := threadsOf(p.PID())
	for _, thread := range threads {
		if err := unix.SchedSetaffinity(thread, &one); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("hold to CPU %d: %w", cpu, err)
		}
	}
	return err
}

// A quotaGroup holds processes, all together, to half of one CPU.
type quotaGroup struct{ folder string }

const (
	quotaUS       = 50_000
	quotaPeriodUS = 100_000 // what containers are given
)

func (q *quotaGroup) pinning() string {
	return fmt.Sprintf("all processes in one control group with %d ms of CPU in each %d ms", quotaUS/1000, quotaPeriodUS/1000)
}

// enter makes a control group of its own, of version 2 or 1, whichever has the
// controller of CPUs.
func (q *quotaGroup) enter() ([]string, func() error, error) {
	parent, files, err := cpuController()
	if err != nil {
		return nil, nil, err
	}
	q.folder = filepath.Join(parent, fmt.Sprintf("nearcall-bench-%d", os.Getpid()))
	if err := os.Mkdir(q.folder, 0o755); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNotHere, err)
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(q.folder, file.name), []byte(file.text), 0); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%w: %w", errNotHere, err), os.Remove(q.folder))
		}
	}
	join := `echo $$ > "$0"/cgroup.procs && exec "$@"`
	return []string{"sh", "-c", join, q.folder}, func() error { return removeGroup(q.folder) }, nil
}

const groupEmptyWithin = time.Second

// removeGroup removes a control group whose processes have ended. The kernel may
// count one that was waited for until it is off its CPU for good, and offers no
// event for that with version 1.
func removeGroup(folder string) error {
	deadline := time.Now().Add(groupEmptyWithin)
	for {
		err := os.Remove(folder)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

type controlFile struct{ name, text string }

// cpuController returns where groups with a quota can be made, and what to write
// into them.
func cpuController() (parent string, files []controlFile, err error) {
	const root = "/sys/fs/cgroup"
	// Version 2, where groups below the root are given the controller already.
	enabled, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err == nil && strings.Contains(" "+strings.TrimSpace(string(enabled))+" ", " cpu ") {
		return root, []controlFile{{"cpu.max", fmt.Sprintf("%d %d", quotaUS, quotaPeriodUS)}}, nil
	}
	for _, name := range []string{"cpu", "cpu,cpuacct"} {
		folder := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(folder, "cpu.cfs_quota_us")); err == nil {
			return folder, []controlFile{
				{"cpu.cfs_period_us", strconv.Itoa(quotaPeriodUS)},
				{"cpu.cfs_quota_us", strconv.Itoa(quotaUS)},
			}, nil
		}
	}
	return "", nil, fmt.Errorf("%w: no control group for CPUs below %s", errNotHere, root)
}
