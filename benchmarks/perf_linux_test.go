package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// thisProcess is the test's own.
func thisProcess(t *testing.T) *process.Process {
	t.Helper()
	own, err := os.FindProcess(os.Getpid())
	check(t, err)
	t.Cleanup(func() { _ = own.Release() })
	return process.Of(own)
}

// fakeCounters are files in the place of counters.
type fakeCounters struct {
	path   string
	opened int
	nth    int // which fails, with err
	err    error
}

func newFakeCounters(t *testing.T, nth int, err error) *fakeCounters {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counter")
	check(t, os.WriteFile(path, nil, 0o600))
	return &fakeCounters{path: path, nth: nth, err: err}
}

func (f *fakeCounters) open(*unix.PerfEventAttr, int, int, int, int) (int, error) {
	if f.opened++; f.opened == f.nth {
		return -1, f.err
	}
	return unix.Open(f.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// left is how many of them are open.
func (f *fakeCounters) left(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fd/*")
	check(t, err)
	left := 0
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == f.path {
			left++
		}
	}
	return left
}

func TestCountersThatFailLeaveNothingOpen(t *testing.T) {
	processes := []*process.Process{thisProcess(t), thisProcess(t)}
	for err, notHere := range map[error]bool{
		unix.ENOENT: true, unix.EACCES: true, unix.EPERM: true, unix.EOPNOTSUPP: true,
		unix.EMFILE: false, unix.EINVAL: false,
	} {
		for _, nth := range []int{1, 2, 5} {
			counters := newFakeCounters(t, nth, err)
			set, got := openPerf(processes, perfEvents, counters.open)
			if !errors.Is(got, err) || errors.Is(got, errNotHere) != notHere || set.files != nil {
				t.Errorf("%v at the %d. counter: %v, %v", err, nth, set, got)
			}
			if left := counters.left(t); left != 0 {
				t.Errorf("%v at the %d. counter: %d are open", err, nth, left)
			}
		}
	}
}

func TestThreadThatHasEndedIsNotCounted(t *testing.T) {
	counters := newFakeCounters(t, 2, unix.ESRCH)
	set, err := openPerf([]*process.Process{thisProcess(t), thisProcess(t)}, perfEvents, counters.open)
	check(t, err)
	if left := counters.left(t); left != counters.opened-1 || left < 2*len(perfEvents)-1 {
		t.Errorf("%d of %d counters are open", left, counters.opened)
	}
	set.close()
	if left := counters.left(t); left != 0 {
		t.Errorf("%d counters are open after they were closed", left)
	}
}

func TestCountsAreScaled(t *testing.T) {
	before := perfCount{Events: 1_000, WantedNS: 400, CountedNS: 100}
	for _, c := range []struct {
		name  string
		after perfCount
		want  float64
		err   error
	}{
		{"all the time", perfCount{1_500, 500, 200}, 500, nil},
		{"a quarter of the time", perfCount{1_500, 800, 200}, 2_000, nil},
		{"no thread has run", before, 0, nil},
		{"never", perfCount{1_000, 800, 100}, 0, errNeverCounted},
	} {
		if got, err := before.until(c.after); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("counted %s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestCountersCount(t *testing.T) {
	const pages = 200
	event := perfEvent{"page_faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS}
	set, err := openPerf([]*process.Process{thisProcess(t)}, []perfEvent{event}, unix.PerfEventOpen)
	if errors.Is(err, errNotHere) {
		t.Logf("this user may not count, and is told so: %v", err)
		return
	}
	check(t, err)
	defer set.close()
	before, err := set.read()
	check(t, err)
	memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	check(t, err)
	defer unix.Munmap(memory)
	// A kernel that has no huge pages does not know this.
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
	for page := range pages {
		memory[page*os.Getpagesize()] = 1
	}
	after, err := set.read()
	check(t, err)
	got, err := set.between(before, after)
	if err != nil || got["page_faults"] < pages {
		t.Errorf("%v, %v for %d pages", got, err, pages)
	}
}
