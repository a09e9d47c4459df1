package resident_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// Functions are served beside commands, on the same socket; a connection to them
// keeps the resident.
func TestFunctionsBesideCommands(t *testing.T) {
	t.Setenv("TEST_SERVE", "yes")
	const idle = 2 * time.Second
	t.Setenv("TEST_IDLE", idle.String())
	eachMode(t, func(t *testing.T, _, path string) {
		startResident(t, path)
		pid := status(t, path).ProcessID
		conn, err := net.Dial("unix", placeOf(t, path).Socket())
		must(t, err)
		lines := bufio.NewReader(conn)
		for _, text := range []string{"one", "seventeen", ""} {
			_, err := fmt.Fprintln(conn, text)
			must(t, err)
			got, err := lines.ReadString('\n')
			must(t, err)
			if atoi(t, got) != len(text) {
				t.Errorf("%q has the length %q", text, got)
			}
			_, _, outcome := run(t, testlauncher.Launch{Program: path})
			expect(t, outcome, testlauncher.Outcome{})
		}
		time.Sleep(max(idle, wire.HelloTimeoutMs*time.Millisecond) + 500*time.Millisecond)
		if _, err := fmt.Fprintln(conn, "late"); err != nil {
			t.Error(err)
		}
		if got, err := lines.ReadString('\n'); err != nil || atoi(t, got) != len("late") {
			t.Errorf("after it was silent for long it is answered %q, %v", got, err)
		}
		if !alive(pid) {
			t.Error("it left while a connection was open")
		}
		must(t, conn.Close())
		awaitEnd(t, pid)
	})
}

// Where functions are not served any more, their callers are told, and keep nobody.
func TestFunctionsThatFail(t *testing.T) {
	t.Setenv("TEST_SERVE", "fail")
	t.Setenv("TEST_IDLE", "1s")
	eachMode(t, func(t *testing.T, _, path string) {
		startResident(t, path)
		pid := status(t, path).ProcessID
		var calls []net.Conn
		for range 20 {
			conn, err := net.Dial("unix", placeOf(t, path).Socket())
			must(t, err)
			_, err = fmt.Fprintln(conn, "one")
			must(t, err)
			calls = append(calls, conn)
		}
		for _, conn := range calls {
			must(t, conn.SetReadDeadline(time.Now().Add(patience)))
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a connection that nobody serves ends with %v", err)
			}
			must(t, conn.Close())
		}
		awaitEnd(t, pid)
	})
}

// A plain run is as ever.
func TestPlainRun(t *testing.T) {
	path := program(t, "concurrent")
	for _, c := range []struct {
		arguments string
		want      string
		code      int
	}{
		{"pid", "", 0},
		{"--no-resident command echo plain", "plain\n", 0},
		{"command sh -c umask", "0022\n", 0},
		{"exit 7", "", 7},
		{"leave 9", "", 9},
		{"execute sh -c exit", "0 <nil>\n", 0},
		{"execute /nowhere/at/all", "127 <nil>\n", 0},
		{"execute notacommandatall", "127 <nil>\n", 0}, // as launchers tell it
		{"execute /etc/passwd", "126 <nil>\n", 0},
		{"unknown", "testprogram: there is no command \"unknown\"\n", 64},
	} {
		command := exec.Command("sh", append([]string{"-c", `umask 022; exec "$0" "$@"`, path}, strings.Fields(c.arguments)...)...)
		got, _ := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != c.code || c.want != "" && string(got) != c.want {
			t.Errorf("%s: code %d, %q", c.arguments, code, got)
		}
	}
	directory, err := os.ReadDir(os.Getenv("XDG_RUNTIME_DIR"))
	must(t, err)
	if len(directory) != 0 {
		t.Errorf("a plain run made %v", directory)
	}
}

// A plain run is ended by signals unless it uses its context.
func TestPlainSignals(t *testing.T) {
	path := program(t, "pool")
	for _, c := range []struct {
		arguments []string
		signals   []syscall.Signal
		code      int
		ended     syscall.Signal
	}{
		{[]string{"ignore"}, []syscall.Signal{syscall.SIGINT}, -1, syscall.SIGINT},
		{[]string{"wait"}, []syscall.Signal{syscall.SIGTERM}, 4, 0},
		{[]string{"wait", "twice"}, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, -1, syscall.SIGTERM},
	} {
		command := exec.Command(path, c.arguments...)
		output, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		lines := bufio.NewReader(output)
		for _, s := range c.signals {
			_, err := lines.ReadString('\n') // that it waits, or why its context ended
			must(t, err)
			must(t, command.Process.Signal(s))
		}
		_ = command.Wait()
		status, ok := command.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || command.ProcessState.ExitCode() != c.code || c.ended != 0 && status.Signal() != c.ended {
			t.Errorf("%v: %v", c.arguments, command.ProcessState)
		}
	}
}

// Nobody becomes a resident by mistake.
func TestStartedByHand(t *testing.T) {
	path := program(t, "pool")
	for _, environment := range [][]string{nil, {"LISTEN_FDS=1", "LISTEN_PID=1", "LISTEN_FDNAMES=nearcall-resident", "NEARCALL_RESIDENT_LOCK=/x"}} {
		command := exec.Command(path, "--nearcall-resident")
		command.Env = environment
		got, _ := command.CombinedOutput()
		if command.ProcessState.ExitCode() != 125 || !strings.Contains(string(got), "nearcall-run") {
			t.Errorf("code %d, %q", command.ProcessState.ExitCode(), got)
		}
	}
}
