package resident_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// However a program ends, its caller hears how, and the next run is well.
func TestEnds(t *testing.T) {
	type ends map[string]struct {
		want           testlauncher.Outcome
		stdout, stderr string // the latter: what is in it
	}
	shared := ends{
		"exit 300":  {want: testlauncher.Outcome{Code: 300 & 0xff}},
		"leave 4":   {want: testlauncher.Outcome{Code: 4}, stdout: "deferred\n"},
		"panic":     {want: testlauncher.Outcome{Code: 2}, stderr: "panic: deliberately"},
		"goexit":    {want: testlauncher.Outcome{Code: 2}},
		"kill 9":    {want: testlauncher.Outcome{Signal: syscall.SIGKILL}},
		"kill 15":   {want: testlauncher.Outcome{Signal: syscall.SIGTERM}},
		"close":     {want: testlauncher.Outcome{Code: 5}, stderr: "true"},
		"unknown":   {want: testlauncher.Outcome{Code: 64}, stderr: "no command"},
		"goroutine": {stdout: "first\n"},
	}
	eachMode(t, func(t *testing.T, mode, path string) {
		for command, end := range shared {
			if mode == "pool" && command == "leave 4" {
				end.stdout = "" // os.Exit
			}
			if mode == "concurrent" && (strings.HasPrefix(command, "exit") || command == "kill 9") {
				end.want = testlauncher.Outcome{Lost: true} // the process was everybody's
			}
			if mode == "concurrent" && command == "kill 15" {
				continue // it is the resident's own, which leaves when the run has ended
			}
			stdout, stderr, outcome := run(t, testlauncher.Launch{Program: path, Args: strings.Fields(command)})
			if outcome.Ending = false; outcome != end.want || stdout != end.stdout || !strings.Contains(stderr, end.stderr) {
				t.Errorf("%s: %+v, want %+v; %q %.200q", command, outcome, end.want, stdout, stderr)
			}
			if got, _, _ := run(t, testlauncher.Launch{Program: path, Args: []string{"command", "echo", "well"}}); got != "well\n" {
				t.Errorf("after %s the next run says %q", command, got)
			}
		}
	})
}

// A panic ends a run and not the process that others share.
func TestPanicLeavesResident(t *testing.T) {
	for _, mode := range []string{"serial", "concurrent"} {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			before, _, _ := run(t, testlauncher.Launch{Program: path, Args: []string{"pid"}})
			for range 3 {
				_, _, outcome := run(t, testlauncher.Launch{Program: path, Args: []string{"panic"}})
				expect(t, outcome, testlauncher.Outcome{Code: 2})
			}
			if after, _, _ := run(t, testlauncher.Launch{Program: path, Args: []string{"pid"}}); after != before {
				t.Errorf("process %q after the panics, %q before", after, before)
			}
		})
	}
}

// What a goroutine that stays behind writes comes to nobody else's output.
func TestGoroutineLeftBehind(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		for range 3 {
			run(t, testlauncher.Launch{Program: path, Args: []string{"goroutine"}})
			stdout, stderr, outcome := run(t, testlauncher.Launch{Program: path, Args: []string{"command", "echo", "mine"}})
			if stdout != "mine\n" || stderr != "" || outcome != (testlauncher.Outcome{}) {
				t.Errorf("%q, %q, %+v", stdout, stderr, outcome)
			}
		}
	})
}

// A process that stays behind does not keep the run, and lives on.
func TestChildLeftBehind(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"child"}})
		pid := atoi(t, b.line())
		defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
		expect(t, b.wait(), testlauncher.Outcome{})
		if !alive(pid) {
			t.Error("the process that the run left behind is gone")
		}
	})
}

// All descriptors of a run are closed when its caller hears of the end.
func TestOutputIsClosedBeforeTheEnd(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		for range 20 {
			b := begin(t, testlauncher.Launch{Program: path, Args: []string{"pid"}})
			b.line()
			b.wait()
			must(t, b.reader.SetReadDeadline(time.Unix(1, 0)))
			if _, err := b.reader.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				// Past deadlines fail without a look: ask the kernel itself.
				raw, err := b.reader.SyscallConn()
				must(t, err)
				must(t, raw.Control(func(fd uintptr) {
					poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
					if n, err := unix.Poll(poll, 0); n != 1 || err != nil || poll[0].Revents&unix.POLLHUP == 0 {
						t.Errorf("the output is still open: %v %v", poll, err)
					}
				}))
			}
		}
	})
}

// A run that becomes another program ends as that does, and hears of its caller's end.
func TestRunThatBecomesAnotherProgram(t *testing.T) {
	for _, mode := range []string{"pool", "serial"} {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			become := func(script string) testlauncher.Launch {
				return testlauncher.Launch{Program: path, Args: []string{"become", "/bin/sh", "-c", script}}
			}
			_, _, outcome := run(t, become("exit 7"))
			expect(t, outcome, testlauncher.Outcome{Code: 7})
			b := begin(t, become("echo waiting; exec sleep 1000"))
			b.line()
			defer func() { _ = unix.Kill(b.ProcessID, unix.SIGKILL) }()
			must(t, b.Conn.Close())
			awaitEnd(t, b.ProcessID)
		})
	}
}

// A run has each stream once: what it closes is closed.
func TestStreamsAreThereOnce(t *testing.T) {
	path := program(t, "pool")
	b := begin(t, testlauncher.Launch{Program: path, Args: []string{"twice"}})
	b.line()
	output, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", b.ProcessID))
	must(t, err)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", b.ProcessID))
	must(t, err)
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == output && filepath.Base(file) != "1" {
			t.Errorf("descriptor %s is the output too", filepath.Base(file))
		}
	}
	must(t, b.input.Close())
	b.wait()
}
