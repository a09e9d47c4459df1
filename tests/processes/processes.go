// Package processes is what the tests in this folder share: real processes, what
// can be seen of them from outside, and a witness of how late the machine is.
package processes

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
)

// Root is the repository as seen from the packages beside this one.
const Root = "../.."

// BuildServer builds the testserver with further flags of go build.
func BuildServer(target string, flags ...string) error {
	return Run(append(append([]string{"go", "build"}, flags...), "-o", target, Root+"/tests/programs/testserver")...)
}

// BuildLibrary builds libnearcall.
func BuildLibrary() error {
	return Run("make", "-C", Root+"/libnearcall", "--no-print-directory")
}

// BuildCaller compiles the caller in C with the target's name, from the folder callers of
// the package, and links it with libnearcall, which is there.
func BuildCaller(target string) error { return BuildCallerIn("callers", target) }

// BuildCallerIn is BuildCaller with another folder.
func BuildCallerIn(folder, target string) error {
	return Run(
		"gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I", Root+"/libnearcall/include",
		"-o", target, filepath.Join(folder, filepath.Base(target)+".c"), Root+"/build/lib/libnearcall.a",
	)
}

// Run runs a command to its end. What it said is in the error.
func Run(command ...string) error {
	output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output)
	}
	return nil
}

// Main is for TestMain: it runs the tests when prepare has made what they start, in a folder
// that is there until they end.
func Main(m *testing.M, prepare func(folder string) error) (code int) {
	folder, err := os.MkdirTemp("", "nearcall-tests-")
	if err == nil {
		defer os.RemoveAll(folder)
		err = closeInherited()
	}
	if err == nil {
		err = prepare(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// closeInherited keeps the descriptors that this process was started with, beyond
// the standard ones, from those it starts: whoever limits or counts theirs relies
// on it.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if descriptor, _ := strconv.Atoi(entry.Name()); descriptor > 2 {
			syscall.CloseOnExec(descriptor)
		}
	}
	return err
}

// Setting returns a number from the environment, for runs larger than CI has
// time for.
func Setting(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s is not a number", name, text)
	}
	return value
}

// Recorded reports whether what was counted is to be kept beside the benchmarks' results.
func Recorded() bool { return os.Getenv("NEARCALL_RECORD") != "" }

// Seed returns the seed of this run, and says it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := Setting(t, "NEARCALL_SEED", int(time.Now().UnixNano()&0xFFFFFF))
	t.Logf("seed %d (NEARCALL_SEED repeats it)", seed)
	return uint64(seed)
}

// A Log keeps what a process says on standard error, line by line.
type Log struct {
	// Expected is a text whose lines are counted and not kept.
	Expected string

	mu       sync.Mutex
	rest     []byte // a line that has not ended
	kept     []string
	expected int
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		if l.Expected != "" && bytes.Contains(line, []byte(l.Expected)) {
			l.expected++
		} else {
			l.kept = append(l.kept, string(line))
		}
		l.rest = append(l.rest[:0], rest...)
	}
}

// Lines returns the lines that were kept and contain a text.
func (l *Log) Lines(contain string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.kept {
		if strings.Contains(line, contain) {
			found = append(found, line)
		}
	}
	return found
}

// Count returns how many lines were as expected.
func (l *Log) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expected
}

// A Process is a child that the test may kill at any time. It dies with the
// test.
type Process struct {
	*exec.Cmd
	Output io.ReadCloser
	Lines  *bufio.Scanner // of Output

	begin func(*exec.Cmd) error // nil: its own method
}

// Start starts a program. Its standard error goes to log, or to the test's.
func Start(t testing.TB, log *Log, command ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(command[0], command[1:]...)}
	if log != nil {
		p.Stderr = log
	}
	p.start(t)
	return p
}

// StartBy is Start by something other than the command's own method, such as that of a host
// with a network of its own.
func StartBy(t testing.TB, begin func(*exec.Cmd) error, command ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(command[0], command[1:]...), begin: begin}
	p.start(t)
	return p
}

// StartWithFile is Start with a file as descriptor 3.
func StartWithFile(t testing.TB, file *os.File, command ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(command[0], command[1:]...)}
	p.ExtraFiles = []*os.File{file}
	p.start(t)
	return p
}

// StartWithInput is Start with a pipe to its standard input.
func StartWithInput(t testing.TB, ret *io.Writer, command ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(command[0], command[1:]...)}
	input, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	*ret = input
	p.start(t)
	return p
}

func (p *Process) start(t testing.TB) {
	t.Helper()
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.begin == nil {
		p.begin = (*exec.Cmd).Start
	}
	if err := p.begin(p.Cmd); err != nil {
		t.Fatal(err)
	}
	p.Output, p.Lines = output, bufio.NewScanner(output)
}

// StartServer starts a server with a socket at path and waits until it listens.
// command is the testserver, after whatever is to start it, and its arguments.
func StartServer(t testing.TB, log *Log, path string, command ...string) *Process {
	t.Helper()
	p := Start(t, log, append(command, "-address", "unix:"+path)...)
	p.awaitServer(t)
	return p
}

// StartServerOnOldKernel is StartServer where SO_PASSRIGHTS is not known, as before
// Linux 6.16.
func StartServerOnOldKernel(t testing.TB, log *Log, path string, command ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(command[0], append(command[1:], "-address", "unix:"+path)...), begin: rightstest.StartOnOldKernel}
	p.Stderr = log
	p.start(t)
	p.awaitServer(t)
	return p
}

func (p *Process) awaitServer(t testing.TB) {
	t.Helper()
	if !Within(t, "a server to start", time.Minute, p.Lines.Scan) || !strings.HasPrefix(p.Lines.Text(), "ready") {
		t.Fatalf("the server did not start: %q", p.Lines.Text())
	}
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	p.Process.Kill()
	p.Wait()
}

func (p *Process) file(name string) string { return fmt.Sprintf("/proc/%d/%s", p.Process.Pid, name) }

// Descriptors counts the open descriptors.
func (p *Process) Descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir(p.file("fd"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Threads counts the threads.
func (p *Process) Threads(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir(p.file("task"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Regions counts the mapped regions of shared memory.
func (p *Process) Regions(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(p.file("maps"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("/memfd:nearcall-"))
}

// ResidentBytes returns the memory the process has.
func (p *Process) ResidentBytes(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(p.file("status"))
	if err != nil {
		t.Fatal(err)
	}
	kilobytes := 0
	if _, rest, found := strings.Cut(string(text), "VmRSS:"); found {
		fmt.Sscan(rest, &kilobytes)
	}
	if kilobytes == 0 {
		t.Fatalf("%s has no VmRSS", p.file("status"))
	}
	return kilobytes << 10
}

// WaitFor waits until the condition holds, for which there is no event.
func WaitFor(t testing.TB, what string, bound time.Duration, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !condition(); {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain for %s", bound, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Within returns what a function that blocks returns, or ends the test when that takes
// longer than its bound. It is for the test's own goroutine.
func Within[T any](t testing.TB, what string, bound time.Duration, wait func() T) (got T) {
	t.Helper()
	ended := make(chan T, 1)
	go func() { ended <- wait() }()
	select {
	case got = <-ended:
	case <-time.After(bound):
		t.Fatalf("waited %s in vain for %s", bound, what)
	}
	return got
}

// Socket returns a path for a socket of the test's own.
func Socket(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "s")
}
