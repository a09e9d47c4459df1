package resident_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// Any negative idle time is reported as one.
func TestIdleForEver(t *testing.T) {
	t.Setenv("TEST_IDLE", "-1ns")
	path := program(t, "concurrent")
	run(t, testlauncher.Launch{Program: path})
	if got := status(t, path).IdleMS; got != -1 {
		t.Errorf("it stays for %d ms", got)
	}
}

// Options that cannot be are refused however the program is started.
func TestOptionsOutOfRange(t *testing.T) {
	for name, values := range map[string][]string{"TEST_WORKERS": {"-1", "65"}, "TEST_MODE": {"-1", "3"}} {
		for _, value := range values {
			started := exec.Command(program(t, "pool"), "report")
			started.Env = append(os.Environ(), name+"="+value)
			said, err := started.CombinedOutput()
			if started.ProcessState.ExitCode() != 125 || !strings.Contains(string(said), "resident.Options: ") || !strings.Contains(string(said), value) {
				t.Errorf("%s=%s: %v, %s", name, value, err, said)
			}
		}
	}
}

// Of a variable that is there twice a run and its commands see the first, as plainly.
func TestVariableTwice(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		startResident(t, path)
		l := testlauncher.Launch{Program: path, Args: []string{"report"}, Env: []string{"WHO=first", "PATH=" + os.Getenv("PATH"), "WHO=second"}}
		got, _, _ := run(t, l)
		if s := parse(t, strings.TrimSpace(got)); s.Who != "first" || mode != "concurrent" && s.OSWho != "first" {
			t.Errorf("it is %q, and %q of the process", s.Who, s.OSWho)
		}
		l.Args = []string{"command", "sh", "-c", "echo $WHO"}
		if got, _, _ := run(t, l); got != "first\n" {
			t.Errorf("for a command it is %q", got)
		}
	})
}

// Who sends too many descriptors is not waited for, nor for the rest of what belongs to them.
func TestTooManyDescriptorsAtOnce(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		b, err := request.Request{Header: request.Header{Kind: request.Run}, Directory: "/",
			Arguments: []string{"program", strings.Repeat("x", 64<<10)}}.Append(nil)
		must(t, err)
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		must(t, err)
		defer func() { must(t, null.Close()) }()
		conn := silent(t, path, 1)[0].(*net.UnixConn)
		began := time.Now()
		must(t, testlauncher.SendWith(conn, b[:len(b)-1], many(int(null.Fd()), 5)...))
		must(t, conn.SetReadDeadline(began.Add(patience)))
		_, _ = conn.Read(make([]byte, 1))
		if took := time.Since(began); took > wire.HelloTimeoutMs*time.Millisecond/2 {
			t.Errorf("it was ended after %v", took)
		}
	})
}

// Bad connections do not fill the log.
func TestComplaintsAreFew(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		const bad = 200
		began := time.Now()
		for range bad {
			conn := silent(t, path, 1)[0]
			_, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			must(t, err)
			must(t, conn.SetReadDeadline(time.Now().Add(patience)))
			_, _ = conn.Read(make([]byte, 1))
		}
		text, err := os.ReadFile(placeOf(t, path).Log())
		must(t, err)
		processes := 3
		if got, most := strings.Count(string(text), "a connection ended"), processes*(2+int(time.Since(began)/time.Second)); got == 0 || got > most {
			t.Errorf("%d lines of %d connections, at most %d", got, bad, most)
		}
	})
}

// A relative path of a watched file is one of the resident's start.
func TestWatchedByRelativePath(t *testing.T) {
	watched := filepath.Join(t.TempDir(), "watched")
	must(t, os.WriteFile(watched, nil, 0o600))
	t.Setenv("TEST_WATCH", strings.TrimPrefix(watched, "/"))
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path, Args: []string{"chdir", t.TempDir()}})
		pid := status(t, path).ProcessID
		_, _, outcome := run(t, testlauncher.Launch{Program: path})
		expect(t, outcome, testlauncher.Outcome{})
		must(t, os.WriteFile(watched, []byte("new"), 0o600))
		awaitEnd(t, pid)
	})
}
