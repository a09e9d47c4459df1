package resident_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/channel"
	"github.com/nearcall/nearcall/resident/internal/request"
	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// A run is run plainly when a variable that is read only once has another value.
func TestVariablesThatAreReadOnce(t *testing.T) {
	t.Setenv("TEST_ENVIRONMENT", "MINE")
	eachMode(t, func(t *testing.T, _, path string) {
		startResident(t, path)
		for _, name := range append([]string{"MINE"}, readOnce...) {
			_, _, outcome := run(t, testlauncher.Launch{Program: path, Env: append(os.Environ(), name+"=another")})
			if !strings.Contains(outcome.Plainly, "the variable "+name+" is read before the run") {
				t.Errorf("%s has another value: %+v", name, outcome)
			}
		}
		_, _, outcome := run(t, testlauncher.Launch{Program: path, Env: append(os.Environ(), "OTHER=another")})
		expect(t, outcome, testlauncher.Outcome{})
	})
}

// A launcher in other surroundings is told to run the program plainly.
func TestSurroundings(t *testing.T) {
	for name, attributes := range map[string]*syscall.SysProcAttr{
		"groups":              {Credential: &syscall.Credential{Groups: []uint32{12345}}},
		"host name namespace": {Cloneflags: syscall.CLONE_NEWUTS},
		"IPC namespace":       {Cloneflags: syscall.CLONE_NEWIPC},
		"network namespace":   {Cloneflags: syscall.CLONE_NEWNET},
		"mount namespace":     {Cloneflags: syscall.CLONE_NEWNS},
		"process namespace":   {Cloneflags: syscall.CLONE_NEWPID},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, _, path string) {
				startResident(t, path)
				got, code := launchWith(t, exec.Command(os.Args[0]), path, attributes)
				if code != codePlainly || !strings.Contains(got, name) {
					t.Errorf("code %d, %q", code, got)
				}
				if got, code = launchWith(t, exec.Command(os.Args[0]), path, nil); code != 0 {
					t.Errorf("code %d, %q", code, got)
				}
			})
		})
	}
}

// A launcher that says nothing of what it is restricted by is told so too: the resident looks itself.
func TestStanding(t *testing.T) {
	for name, c := range map[string]struct {
		before  []string
		because string
	}{
		"no_new_privs": {[]string{"setpriv", "--no-new-privs"}, "NoNewPrivs"},
		"bounding set": {[]string{"setpriv", "--bounding-set=-all"}, "Cap"},
		"real group":   {[]string{"setpriv", "--rgid=12345", "--keep-groups"}, "Gid"},
		"nice":         {[]string{"nice", "-n", "2"}, "nice"},
		"I/O priority": {[]string{"ionice", "-c", "3"}, "I/O priority"},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, _, path string) {
				startResident(t, path)
				got, code := launchWith(t, exec.Command(c.before[0], append(c.before[1:], os.Args[0])...), path, nil)
				if code != codePlainly || !strings.Contains(got, c.because) {
					t.Errorf("code %d, %q", code, got)
				}
				if got, code = launchWith(t, exec.Command(os.Args[0]), path, nil); code != 0 {
					t.Errorf("code %d, %q", code, got)
				}
			})
		})
	}
}

// What started in a sandbox is nobody's resident.
func TestStartedInSandbox(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		for range 2 {
			got, code := launchWith(t, exec.Command("setpriv", "--no-new-privs", os.Args[0]), path, nil)
			if code != codePlainly || !strings.Contains(got, "no_new_privs") {
				t.Errorf("code %d, %q", code, got)
			}
		}
		if got, code := launchWith(t, exec.Command(os.Args[0]), path, nil); code != codePlainly {
			t.Errorf("code %d, %q", code, got)
		}
	})
}

// launchWith runs a launcher that is a process of its own.
func launchWith(t *testing.T, command *exec.Cmd, path string, attributes *syscall.SysProcAttr) (output string, code int) {
	t.Helper()
	command.Env = append(os.Environ(), variableLaunch+"="+path)
	command.SysProcAttr = attributes
	text, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), command.ProcessState.ExitCode()
}

// In a pool a run has its caller's resource limits, and so have its commands.
func TestLimits(t *testing.T) {
	path := program(t, "pool")
	startResident(t, path)
	for _, limits := range []string{"ulimit -c 0; ulimit -n 100", "ulimit -c 8; ulimit -n 200"} {
		plain, err := exec.Command("sh", "-c", limits+"; exec "+path+" limits").CombinedOutput()
		must(t, err)
		got, code := launchWith(t, exec.Command("sh", "-c", limits+"; exec "+os.Args[0]+" limits"), path, nil)
		if code != 0 || got != string(plain) {
			t.Errorf("after %s: %q, and in a plain run %q", limits, got, plain)
		}
	}
}

// Nothing is taken from another user, even if the directory lets them in.
func TestOtherUser(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		startResident(t, path)
		socket := placeOf(t, path).Socket()
		for _, p := range []string{filepath.Dir(filepath.Dir(socket)), filepath.Dir(socket)} {
			must(t, os.Chmod(p, 0o755))
		}
		defer func() { must(t, os.Chmod(filepath.Dir(socket), 0o700)) }()
		must(t, os.Chmod(socket, 0o777))
		// Python connects with one user and sends with another: the first one counts.
		command := exec.Command("python3", "-c", `
import os, socket, sys
os.seteuid(65534)
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
os.seteuid(0)
try:
    s.sendall(b"\x8bNCR\r\n\x1a\n" + (48).to_bytes(4, "little") + b"\1\0\2\0" + bytes(32))
    print(len(s.recv(100)))
except (ConnectionResetError, BrokenPipeError):
    print(0)
`, socket)
		if got, err := command.CombinedOutput(); err != nil || string(got) != "0\n" {
			t.Errorf("another user got %q, %v", got, err)
		}
	})
}

// What is no request ends its connection, and nothing else. No descriptor stays.
func TestMalformedRequests(t *testing.T) {
	good, err := request.Request{Header: request.Header{Kind: request.Run}, Directory: "/", Arguments: []string{"program"}}.Append(nil)
	must(t, err)
	changed := func(at int, value byte) []byte {
		b := append([]byte{}, good...)
		b[at] = value
		return b
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	fd := int(null.Fd())
	for name, c := range map[string]struct {
		bytes       []byte
		descriptors []int
		plainly     bool
	}{
		"another protocol":      {bytes: []byte("GET / HTTP/1.1\r\n\r\n")},
		"another magic":         {bytes: changed(3, 'X')},
		"another version":       {bytes: changed(12, 2), plainly: true},
		"another kind":          {bytes: changed(14, 9)},
		"no arguments":          {bytes: changed(28, 0)},
		"too many arguments":    {bytes: changed(31, 0xff)},
		"too many variables":    {bytes: changed(32, 3)},
		"too few bytes":         {bytes: changed(8, 47)},
		"too many bytes":        {bytes: changed(11, 0xff)},
		"without descriptors":   {bytes: good, plainly: true},
		"too few descriptors":   {bytes: good, descriptors: []int{fd, fd, fd}, plainly: true},
		"too many descriptors":  {bytes: good, descriptors: []int{fd, fd, fd, fd, fd}},
		"253 descriptors":       {bytes: good, descriptors: many(fd, 253)},
		"no directory":          {bytes: good, descriptors: []int{fd, fd, fd, fd}, plainly: true},
		"a cut header":          {bytes: good[:20]},
		"a cut body":            {bytes: good[:len(good)-3], descriptors: []int{fd, fd, fd, fd}},
		"status with more":      {bytes: append(changed(14, 2), 0)},
		"status and descriptor": {bytes: statusRequest(t), descriptors: []int{fd}},
		"nothing":               {},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode, path string) {
				run(t, testlauncher.Launch{Program: path})
				before := descriptors(t, status(t, path).ProcessID)
				conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: placeOf(t, path).Socket()})
				must(t, err)
				if len(c.bytes) > 0 {
					must(t, testlauncher.SendWith(conn, c.bytes, c.descriptors...))
				}
				if !c.plainly { // who says nothing more may have withdrawn
					must(t, conn.CloseWrite())
				}
				frame, err := channel.ReadFrame(conn)
				if got := err == nil && frame.Type == request.Plainly; got != c.plainly || err == nil && !got {
					t.Errorf("the answer is %+v, %v", frame, err)
				}
				must(t, conn.Close())
				_, _, outcome := run(t, testlauncher.Launch{Program: path})
				expect(t, outcome, testlauncher.Outcome{})
				await(t, "as many descriptors as before", func() bool { return descriptors(t, status(t, path).ProcessID) <= before })
			})
		})
	}
}

func many(fd, count int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = fd
	}
	return all
}

func statusRequest(t *testing.T) []byte {
	t.Helper()
	b, err := request.Request{Header: request.Header{Kind: request.Status}}.Append(nil)
	must(t, err)
	return b
}

// descriptors counts those of a resident and of its workers that are not idle ones.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	return len(entries)
}

// Who says nothing keeps nobody for long.
func TestSilence(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		startResident(t, path)
		var silent []net.Conn
		for range 3 {
			conn, err := net.Dial("unix", placeOf(t, path).Socket())
			must(t, err)
			silent = append(silent, conn)
		}
		_, _, outcome := run(t, testlauncher.Launch{Program: path})
		expect(t, outcome, testlauncher.Outcome{})
		for _, conn := range silent {
			must(t, conn.SetReadDeadline(time.Now().Add(patience)))
			if _, err := conn.Read(make([]byte, 1)); err != io.EOF && !isReset(err) {
				t.Errorf("it was not ended: %v", err)
			}
		}
	})
}

func isReset(err error) bool {
	return err != nil && strings.Contains(err.Error(), unix.ECONNRESET.Error())
}

// A launcher that withdraws before RUNNING has had nothing done.
func TestWithdrawn(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		startResident(t, path)
		// Each has a file of its own: a run that has begun may make it later than its end
		// is reported, for a goroutine cannot be ended.
		folder := t.TempDir()
		var withdrawn []string
		for number := range 20 {
			made := filepath.Join(folder, fmt.Sprint(number))
			if !begunBeforeWithdrawal(t, path, made) {
				withdrawn = append(withdrawn, made)
			}
			// Whoever would run it now comes after all that the resident does with it.
			run(t, testlauncher.Launch{Program: path})
		}
		for _, made := range withdrawn {
			if _, err := os.Stat(made); err == nil {
				t.Error("it was run without RUNNING:", made)
			}
		}
		await(t, "the end of runs that had begun", func() bool { return status(t, path).Running == 0 })
	})
}

// begunBeforeWithdrawal asks for a run, withdraws, and reports whether RUNNING had come.
func begunBeforeWithdrawal(t *testing.T, path, made string) bool {
	t.Helper()
	conn, err := testlauncher.Connect(path, os.Environ())
	must(t, err)
	must(t, testlauncher.Launch{Program: path, Args: []string{"once", made, "x"}}.Send(conn))
	raw, err := conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_RDWR) }))
	must(t, err)
	_, err = channel.ReadFrame(conn)
	must(t, conn.Close())
	return err == nil
}

// Whoever has heard that a run has begun finds it in the report. (The supervisor of others
// hears of it from its worker, which may be later.)
func TestRunIsReportedWhenItHasBegun(t *testing.T) {
	path := program(t, "concurrent")
	for range 100 {
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"wait"}})
		if r := status(t, path); r.Running != 1 {
			t.Fatalf("%d runs are reported, and one goes on", r.Running)
		}
		b.line() // it waits for a signal
		b.signal(syscall.SIGTERM)
		expect(t, b.wait(), testlauncher.Outcome{Code: 4})
		await(t, "the report of its end", func() bool { return status(t, path).Running == 0 })
	}
}
