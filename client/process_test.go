package client_test

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A serverProcess is a testserver.
type serverProcess struct {
	*exec.Cmd
	address string
}

// binaries is a directory for all tests, which TestMain makes and removes.
var binaries string

// buildServer builds the testserver once.
var buildServer = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(binaries, "testserver")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/nearcall/nearcall/tests/programs/testserver").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return binary, err
})

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "nc"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(binaries)
	os.Exit(code)
}

// startServer starts a server that listens with the parameters of an address.
func startServer(t testing.TB, parameters ...string) *serverProcess {
	t.Helper()
	return startServerWith(t, strings.Join(parameters, "&"))
}

func startServerWith(t testing.TB, parameters string, arguments ...string) *serverProcess {
	t.Helper()
	binary, err := buildServer()
	must(t, err)
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	address := "unix:" + filepath.Join(directory, "s")
	listen := address
	if parameters != "" {
		listen += "?" + parameters
	}
	p := &serverProcess{Cmd: exec.Command(binary, append(arguments, "-address", listen)...), address: address}
	stdout, err := p.StdoutPipe()
	must(t, err)
	must(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		os.RemoveAll(directory)
	})
	_, err = bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	return p
}

// stop lets the process stand still, all of its threads.
func (p *serverProcess) stop(t *testing.T) {
	t.Helper()
	must(t, p.Process.Signal(syscall.SIGSTOP))
	var state syscall.WaitStatus
	_, err := syscall.Wait4(p.Process.Pid, &state, syscall.WUNTRACED, nil)
	must(t, err)
	if !state.Stopped() {
		t.Fatalf("the server is not stopped: %v", state)
	}
}

// logLines is what a client has logged.
type logLines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *logLines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.Buffer.String(), text)
}
