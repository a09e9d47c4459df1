package examples_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// Generous: what is waited for takes a fraction on any machine.
	readyTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	pollInterval = 10 * time.Millisecond
)

// A process runs beside the test, in a group of its own; its output goes to a
// file.
type process struct {
	command *exec.Cmd
	logPath string
	ended   chan struct{}
}

// start starts a program that is stopped at the end of the test. environment is
// added to the test's own.
func start(t *testing.T, environment []string, name string, args ...string) *process {
	t.Helper()
	p := &process{
		command: exec.Command(name, args...),
		logPath: filepath.Join(t.TempDir(), "log"),
		ended:   make(chan struct{}),
	}
	log, err := os.Create(p.logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.log(t))
		}
	})
	return p
}

func (p *process) pid() int { return p.command.Process.Pid }

func (p *process) log(t *testing.T) string {
	t.Helper()
	return content(t, p.logPath)
}

// stop ends the process as its user would, and its whole group when it does not
// listen.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		t.Errorf("%s did not end within %v of SIGTERM", p.command.Path, stopTimeout)
	}
	// Whoever is left of the group has lost its parent.
	if err := syscall.Kill(-p.pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
	<-p.ended
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(readyTimeout); !holds(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", readyTimeout, what)
		}
	}
}

// outputTimeout is of what builds all there is, which takes a minute where nothing else runs.
const outputTimeout = 5 * time.Minute

// output runs a program to its end and returns what it printed. Files take that, not pipes: the
// end of a pipe would be waited for, and what the program has started may hold it open.
func output(t *testing.T, environment []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), outputTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), environment...)
	folder := t.TempDir()
	printed, complained := filepath.Join(folder, "stdout"), filepath.Join(folder, "stderr")
	err := runInto(command, printed, complained)
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not end within %v: %w", outputTimeout, err)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, content(t, printed), content(t, complained))
	}
	return content(t, printed)
}

func runInto(command *exec.Cmd, printed, complained string) error {
	out, err := os.Create(printed)
	if err != nil {
		return err
	}
	defer out.Close()
	complaints, err := os.Create(complained)
	if err != nil {
		return err
	}
	defer complaints.Close()
	command.Stdout, command.Stderr = out, complaints
	return command.Run()
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutputOfWhatLeavesOthers: a program's output is there when the program has ended, whoever
// holds it open still.
func TestOutputOfWhatLeavesOthers(t *testing.T) {
	left, err := strconv.Atoi(strings.TrimSpace(output(t, nil, "sh", "-c", "sleep 1000 & echo $!")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// root returns the repository's folder, and built what stands in its build
// folder.
func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

func built(t *testing.T, path string) string {
	t.Helper()
	full := filepath.Join(root(t), "build", path)
	if _, err := os.Stat(full); err != nil {
		t.Fatalf("%v; examples/test builds it", err)
	}
	return full
}

// helloServer serves the functions that all examples call, and returns the path
// of its socket.
func helloServer(t *testing.T) (server *process, socket string) {
	t.Helper()
	return exampleServer(t, "examples/server")
}

// exampleServer starts one that takes its address first.
func exampleServer(t *testing.T, path string, args ...string) (server *process, socket string) {
	t.Helper()
	socket = filepath.Join(socketFolder(t), "nearcall.sock")
	server = start(t, nil, built(t, path), append([]string{"unix:" + socket}, args...)...)
	awaitListening(t, socket)
	return server, socket
}

// socketFolder makes a folder for a socket, for whose path that of t.TempDir() may be too long.
func socketFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "nearcall-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func awaitListening(t *testing.T, socket string) {
	t.Helper()
	await(t, "the server listens", func() bool {
		connection, err := net.Dial("unix", socket)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
}
