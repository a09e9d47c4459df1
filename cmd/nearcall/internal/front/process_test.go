package front_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// Generous: what is waited for takes a fraction on any machine.
	patience     = 20 * time.Second
	pollInterval = 5 * time.Millisecond
)

// programs are what the tests run: the command as users run it, and a backend.
var programs struct{ nearcall, backend string }

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	directory, err := os.MkdirTemp("", "nc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	const module = "github.com/nearcall/nearcall/cmd/nearcall"
	build := exec.Command("go", "build", fmt.Sprint("-race=", raceDetector), "-o", directory+"/", module, module+"/internal/front/testbackend")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs.nearcall, programs.backend = filepath.Join(directory, "nearcall"), filepath.Join(directory, "testbackend")
	return m.Run()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A process runs beside the test. What it says is kept by line.
type process struct {
	command *exec.Cmd
	ended   chan struct{}

	mutex sync.Mutex
	said  []string
}

// start starts a program, which is killed at the end of the test if it still runs.
func start(t *testing.T, environment []string, name string, args ...string) *process {
	t.Helper()
	return startBy((*exec.Cmd).Start, t, environment, name, args...)
}

func startBy(begin func(*exec.Cmd) error, t *testing.T, environment []string, name string, args ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(name, args...), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), environment...)
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	reads, writes, err := os.Pipe()
	must(t, err)
	p.command.Stdout, p.command.Stderr = writes, writes
	must(t, begin(p.command))
	writes.Close()
	go p.read(reads)
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.ended
		if strings.Contains(p.log(), "DATA RACE") {
			t.Error("a data race")
		}
		if t.Failed() {
			t.Logf("%s %s:\n%s", filepath.Base(name), strings.Join(args, " "), p.log())
		}
	})
	return p
}

func (p *process) read(from *os.File) {
	defer from.Close()
	for lines := bufio.NewScanner(from); lines.Scan(); {
		p.mutex.Lock()
		p.said = append(p.said, lines.Text())
		p.mutex.Unlock()
	}
}

func (p *process) pid() int { return p.command.Process.Pid }

func (p *process) log() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return strings.Join(p.said, "\n")
}

// says waits until the process has said something that fits, and returns what the
// first group of the expression matched.
func (p *process) says(t *testing.T, expression string) string {
	t.Helper()
	fits := regexp.MustCompile(expression)
	var found []string
	await(t, "the process says "+expression, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("it ended, and said:\n%s", p.log())
		default:
		}
		found = fits.FindStringSubmatch(p.log())
		return found != nil
	})
	return found[len(found)-1]
}

// stop sends a signal and waits for the end.
func (p *process) stop(t *testing.T, signal syscall.Signal) {
	t.Helper()
	_ = p.command.Process.Signal(signal)
	p.end(t)
}

func (p *process) end(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("process %d did not end; it said:\n%s", p.pid(), p.log())
	}
}

func (p *process) descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
	must(t, err)
	return len(entries)
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// output runs a program to its end and returns what it printed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := try(t, "", name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return text
}

// programTimeout ends what would otherwise wait for ever; loads take what they are given.
const programTimeout = 10 * time.Minute

// try is output with an input, and without the end of the test on an error.
func try(t *testing.T, input, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &out
	err := command.Run()
	return out.String(), err
}

// A site is a front with its backends, in a directory of its own.
type site struct {
	t         *testing.T
	directory string
	front     *process
}

func newSite(t *testing.T) *site {
	t.Helper()
	// Not t.TempDir(), whose path may be too long for a socket.
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	return &site{t: t, directory: directory}
}

func (s *site) path(name string) string { return filepath.Join(s.directory, name) }

// backend starts a process that takes connections at NAME.sock.
func (s *site) backend(name string, args ...string) *process {
	s.t.Helper()
	b := start(s.t, nil, programs.backend, append([]string{"-socket", "unix:" + s.path(name+".sock"), "-name", name}, args...)...)
	b.says(s.t, "ready")
	return b
}

// configure writes front.toml; DIR in it is the directory.
func (s *site) configure(text string) string {
	s.t.Helper()
	path := s.path("front.toml")
	must(s.t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", s.directory)), 0o600))
	return path
}

// serve starts the front with a configuration, and returns the port of its first
// listener.
func (s *site) serve(text string, args ...string) (port string) {
	s.t.Helper()
	return s.serveBy((*exec.Cmd).Start, text, args...)
}

func (s *site) serveBy(begin func(*exec.Cmd) error, text string, args ...string) (port string) {
	s.t.Helper()
	s.front = startBy(begin, s.t, nil, programs.nearcall, append([]string{"front", "-v", s.configure(text)}, args...)...)
	port = s.front.says(s.t, `msg=listening listener=\S+ address=\S+:(\d+)`)
	s.front.says(s.t, "msg=serving")
	return port
}

// up waits until the front has a channel to a socket.
func (s *site) up(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.front.says(s.t, `takes connections" socket=unix:`+regexp.QuoteMeta(s.path(name+".sock")))
	}
}
