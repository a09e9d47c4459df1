package resident_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// Many launchers at once start one resident, and each is answered.
func TestManyFromCold(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		const launchers = 50
		var group sync.WaitGroup
		for i := range launchers {
			group.Go(func() {
				want := strconv.Itoa(i)
				if got, _, outcome := run(t, testlauncher.Launch{Program: path, Args: []string{"command", "echo", want}, Env: os.Environ()}); got != want+"\n" || outcome.Code != 0 {
					t.Errorf("launcher %s got %q, %+v", want, got, outcome)
				}
			})
		}
		group.Wait()
		await(t, "the count of the runs", func() bool { return status(t, path).Runs == launchers })
	})
}

// A resident tells how it is, and of what it was started with.
func TestStatus(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"twice"}})
		b.line()
		await(t, "a run that goes on", func() bool { return status(t, path).Running == 1 })
		got := status(t, path)
		if got.Mode != mode || got.Runs != 0 || got.IdleMS != 600_000 || got.Leaving || !alive(got.ProcessID) {
			t.Errorf("%+v", got)
		}
		must(t, b.input.Close())
		b.wait()
		waiting := map[string]int{"pool": 2, "serial": 1}[mode]
		await(t, "processes that wait", func() bool {
			s := status(t, path)
			return s.Running == 0 && s.Runs == 1 && s.Waiting == waiting
		})
	})
}

// A resident that is told to stop finishes what runs, and what waits.
func TestStop(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		first := begin(t, testlauncher.Launch{Program: path, Args: []string{"twice"}})
		first.line()
		const behind = 5 // in mode Serial they wait in the backlog
		connections := 1
		var others sync.WaitGroup
		if mode == "serial" {
			connections += behind // or who comes later starts another resident
			for range behind {
				others.Go(func() {
					_, _, outcome := run(t, testlauncher.Launch{Program: path})
					expect(t, outcome, testlauncher.Outcome{})
				})
			}
		}
		await(t, "the backlog", func() bool { return connected(t, path) >= connections })
		pid := status(t, path).ProcessID
		if got, err := askStop(t, path); err != nil || !got.Leaving {
			t.Errorf("%+v, %v", got, err)
		}
		awaitGone(t, placeOf(t, path).Socket())
		must(t, first.input.Close())
		first.line()
		expect(t, withoutEnding(first.wait()), testlauncher.Outcome{})
		others.Wait()
		awaitEnd(t, pid)
	})
}

func askStop(t *testing.T, path string) (report, error) { return ask(placeOf(t, path), request.Stop) }

// connected counts the connections to a program's socket, by the kernel's list.
func connected(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/net/unix")
	must(t, err)
	return strings.Count(string(text), placeOf(t, path).Socket()+"\n") - 1
}

// A resident leaves after its idle time, and not while something runs.
func TestIdle(t *testing.T) {
	t.Setenv("TEST_IDLE", "500ms") // longer than it takes to ask for its state
	eachMode(t, func(t *testing.T, _, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"twice"}})
		b.line()
		pid := status(t, path).ProcessID
		time.Sleep(800 * time.Millisecond) // its idle time, and more
		if !alive(pid) {
			t.Fatal("it left while something ran")
		}
		must(t, b.input.Close())
		expect(t, withoutEnding(b.wait()), testlauncher.Outcome{})
		awaitEnd(t, pid)
		awaitGone(t, placeOf(t, path).Socket())
		if got, _, _ := run(t, testlauncher.Launch{Program: path, Args: []string{"command", "echo", "again"}}); got != "again\n" {
			t.Errorf("the next run says %q", got)
		}
	})
}

// Idle time begins when the resident does: what it asks then is there.
func TestNoIdleTimeAtAll(t *testing.T) {
	t.Setenv("TEST_SERVE", "yes")
	t.Setenv("TEST_IDLE", "1ns")
	eachMode(t, func(t *testing.T, _, path string) {
		startResident(t, path)
		awaitGone(t, placeOf(t, path).Socket())
	})
}

// A resident that waits uses no time.
func TestIdleCostsNothing(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		run(t, testlauncher.Launch{Program: path})
		waiting := map[string]int{"pool": 2, "serial": 1}[mode]
		await(t, "processes that wait", func() bool { return status(t, path).Waiting == waiting })
		processes := append(children(t, status(t, path).ProcessID), status(t, path).ProcessID)
		await(t, "rest", func() bool {
			before := switches(t, processes)
			time.Sleep(500 * time.Millisecond)
			// The Go runtime looks around once a minute.
			return switches(t, processes)-before <= len(processes)
		})
	})
}

// switches counts how often threads of processes went to sleep.
func switches(t *testing.T, processes []int) int {
	t.Helper()
	sum := 0
	for _, pid := range processes {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
			count, _, _ := strings.Cut(rest, "\n")
			sum += atoi(t, count)
		}
	}
	return sum
}

// children are the workers of a resident.
func children(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	var found []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, number := range strings.Fields(string(text)) {
			found = append(found, atoi(t, number))
		}
	}
	return found
}

// A program that was replaced or touched, or whose other files were, has a new
// resident. The old one finishes its work and leaves nothing behind.
func TestOutdated(t *testing.T) {
	watched := filepath.Join(t.TempDir(), "watched")
	must(t, os.WriteFile(watched, nil, 0o600))
	t.Setenv("TEST_WATCH", watched)
	changes := map[string]func(path string) error{
		"replaced": func(path string) error {
			return errors.Join(exec.Command("cp", path, path+".new").Run(), os.Rename(path+".new", path))
		},
		"touched": func(path string) error { return os.Chtimes(path, time.Now(), time.Now()) },
		"removed": os.Remove,
		"watched": func(string) error { return os.WriteFile(watched, []byte("new"), 0o600) },
	}
	eachMode(t, func(t *testing.T, _, path string) {
		for name, change := range changes {
			b := begin(t, testlauncher.Launch{Program: path, Args: []string{"twice"}})
			b.line()
			pid, old := status(t, path).ProcessID, placeOf(t, path)
			must(t, change(path))
			for _, file := range []string{old.Socket(), old.Lock(), old.Log()} {
				awaitGone(t, file)
			}
			must(t, b.input.Close())
			b.line()
			expect(t, withoutEnding(b.wait()), testlauncher.Outcome{})
			awaitEnd(t, pid)
			if name == "removed" {
				must(t, exec.Command("cp", built, path).Run())
			}
		}
	})
}

// A start that comes to something is told by the lock file, one that does not is not.
func TestStartsAreCounted(t *testing.T) {
	warmed := filepath.Join(t.TempDir(), "warmed")
	t.Setenv("TEST_WARM", warmed)
	eachMode(t, func(t *testing.T, mode, path string) {
		lock := placeOf(t, path).Lock()
		must(t, os.WriteFile(lock, []byte("1"), 0o600))
		outcome, err := testlauncher.Launch{Program: path}.Run()
		if outcome.Plainly == "" && !errors.Is(err, testlauncher.ErrNothingDone) {
			t.Errorf("a program that cannot prepare itself: %+v, %v", outcome, err)
		}
		if mode != "concurrent" { // which ends at once
			awaitGone(t, placeOf(t, path).Socket())
		}
		if text, err := os.ReadFile(lock); err != nil || string(text) != "1" {
			t.Errorf("the lock file has %q, %v", text, err)
		}
		must(t, os.WriteFile(warmed, nil, 0o600))
		run(t, testlauncher.Launch{Program: path, Env: os.Environ()})
		if text, err := os.ReadFile(lock); err != nil || string(text) != "" {
			t.Errorf("the lock file has %q, %v", text, err)
		}
		must(t, os.Remove(warmed))
	})
}

// A run whose resident is killed ends as it would have, and tells so.
func TestSupervisorKilled(t *testing.T) {
	for _, mode := range []string{"pool", "serial"} {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			b := begin(t, testlauncher.Launch{Program: path, Args: []string{"twice"}})
			b.line()
			pid := status(t, path).ProcessID
			workers := slices.DeleteFunc(children(t, pid), func(child int) bool { return child == b.ProcessID })
			must(t, unix.Kill(pid, unix.SIGKILL))
			for _, worker := range workers {
				awaitEnd(t, worker)
			}
			must(t, b.input.Close())
			b.line()
			expect(t, withoutEnding(b.wait()), testlauncher.Outcome{})
			run(t, testlauncher.Launch{Program: path})
			awaitEnd(t, b.ProcessID)
		})
	}
}

// Workers that are killed while they wait are replaced.
func TestWaitingWorkersKilled(t *testing.T) {
	for _, mode := range []string{"pool", "serial"} {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			for range 5 {
				run(t, testlauncher.Launch{Program: path})
				for _, worker := range children(t, status(t, path).ProcessID) {
					_ = unix.Kill(worker, unix.SIGKILL)
				}
			}
			_, _, outcome := run(t, testlauncher.Launch{Program: path})
			expect(t, outcome, testlauncher.Outcome{})
		})
	}
}
