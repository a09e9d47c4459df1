package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// terminal returns both ends of one.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	check(t, err)
	t.Cleanup(func() { ours.Close() })
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	check(t, err)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

var endsWithAReason = []string{"sh", "-c", "echo no room left >&2; exit 3"}

// ending is a server that ends with a reason.
func ending(t *testing.T) *process.Process {
	t.Helper()
	p, err := process.StartUnready(endsWithAReason...)
	check(t, err)
	t.Cleanup(p.Stop)
	return p
}

// Whose server has ended is told by the rows that called it, and by those of a server
// that it works for.
func TestRowTellsWhyItsServerEnded(t *testing.T) {
	t.Setenv(asCaller, "1")
	broken := ending(t)
	front, err := process.Start(os.Args[0], "")
	check(t, err)
	defer front.Stop()
	front.Behind = broken
	s := &scene{servers: map[serverPlan]*process.Process{testServer: broken, frontServer: front, servers["go"]: front}, progress: newProgress(discard(t), time.Second)}
	for _, server := range []serverPlan{testServer, frontServer} {
		row := measuredRow{plan: rowPlan{server: server}}
		s.attempt(&row, "round 2", func() error { return os.ErrDeadlineExceeded })
		if want := "round 2: i/o timeout; its server sh has ended: exit status 3: no room left"; row.failed != want {
			t.Errorf("%s: failed with %q", server.program, row.failed)
		}
	}
	front.Behind = nil
	row := measuredRow{plan: rowPlan{server: servers["go"]}}
	s.attempt(&row, "round 2", func() error { return os.ErrDeadlineExceeded })
	if row.failed != "round 2: i/o timeout" {
		t.Errorf("with a server that runs: failed with %q", row.failed)
	}
}

func TestServerThatEndsIsNotWaitedFor(t *testing.T) {
	began := time.Now()
	_, err := startAt("127.0.0.1:1", endsWithAReason...) // where nobody listens
	if err == nil || !strings.Contains(err.Error(), "no room left") || time.Since(began) > process.ReadyTimeout/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// The next row that calls such a server must not take it for one that runs.
func TestBrokenServerOfShortConnectionsIsNotKept(t *testing.T) {
	s := &scene{tools: tools{root: t.TempDir()}, folder: t.TempDir(), servers: map[serverPlan]*process.Process{}}
	for path, text := range map[string]string{
		s.built("webserver"): "#!/bin/sh\necho it will not >&2\nexit 1\n",
	} {
		check(t, os.MkdirAll(s.built(""), 0o700))
		check(t, os.WriteFile(path, []byte(text), 0o700))
	}
	for range 2 {
		if err := s.startWeb(webServer); err == nil || !strings.Contains(err.Error(), "it will not") {
			t.Errorf("started: %v", err)
		}
	}
	if len(s.servers) != 0 {
		t.Errorf("kept are %v", s.servers)
	}
}
