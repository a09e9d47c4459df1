// Command coldcaller measures how long it takes from the start of a process to a first
// answer. Commands and reports are those of ../README.md; each sample is one start.
//
//	coldcaller caller ADDRESS PAYLOAD_BYTES CALLER...
//	coldcaller server ADDRESS PAYLOAD_BYTES CALLER... -- SERVER...
//
// CALLER is a program that is given ADDRESS, PAYLOAD_BYTES and 1, and says "ready" when
// it has had an answer. With "server" a SERVER is started first, in whose arguments
// {path} is that of a socket; when it has said "ready ADDRESS" the caller is started with
// that address, and both starts are timed together.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

const usage = "usage: coldcaller caller|server ADDRESS PAYLOAD_BYTES CALLER... [-- SERVER...]"

func main() {
	// A process started by a thread is killed when that thread ends; the main
	// one does not.
	runtime.LockOSThread()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "coldcaller:", err)
		os.Exit(1)
	}
}

// A cold start is what is started.
type coldStart struct {
	address string
	size    string
	caller  []string
	server  []string // nil: it runs
	folder  string   // of the servers' sockets
	starts  int      // so far
}

func run(args []string) error {
	if len(args) < 4 {
		return errors.New(usage)
	}
	c := coldStart{address: args[1], size: args[2], caller: args[3:]}
	if args[0] == "server" {
		dashes := slices.Index(c.caller, "--")
		if dashes < 0 {
			return errors.New(usage)
		}
		c.caller, c.server = c.caller[:dashes], c.caller[dashes+1:]
	}
	folder, err := os.MkdirTemp("", "coldcaller-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	c.folder = folder
	if _, err := c.once(); err != nil {
		return err
	}
	return protocol.Serve(c.measure)
}

func (c *coldStart) measure(command protocol.Command) (protocol.Report, error) {
	cpu, err := protocol.OwnCPU()
	if err != nil {
		return protocol.Report{}, err
	}
	var samples []uint64
	begin := time.Now()
	for len(samples) == 0 || time.Since(begin) < command.Length {
		took, err := c.once()
		if err != nil {
			return protocol.Report{}, err
		}
		samples = append(samples, uint64(took))
	}
	elapsed := time.Since(begin)
	cpuAfter, err := protocol.OwnCPU()
	return protocol.Report{Samples: [][]uint64{samples}, Elapsed: elapsed, CPU: cpuAfter - cpu}, err
}

// once returns how long one start took; ending what was started is not in it.
func (c *coldStart) once() (time.Duration, error) {
	address := c.address
	begin := time.Now()
	if c.server != nil {
		c.starts++
		path := filepath.Join(c.folder, fmt.Sprint(c.starts))
		command := slices.Clone(c.server)
		for i := range command {
			command[i] = strings.ReplaceAll(command[i], "{path}", path)
		}
		server, said, err := start(command)
		if err != nil {
			return 0, err
		}
		defer server.stop()
		address = said
	}
	caller, _, err := start(append(slices.Clone(c.caller), address, c.size, "1"))
	if err != nil {
		return 0, err
	}
	took := time.Since(begin)
	caller.stop()
	return took, nil
}

// A started process has said that it is ready.
type started struct {
	command *exec.Cmd
	in      io.Closer
}

const readyWord = "ready"

// start starts a program and returns what it says after "ready".
func start(words []string) (started, string, error) {
	s := started{command: exec.Command(words[0], words[1:]...)}
	s.command.Stderr = os.Stderr
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := s.command.StdinPipe()
	if err != nil {
		return s, "", err
	}
	s.in = in
	out, err := s.command.StdoutPipe()
	if err != nil {
		return s, "", err
	}
	if err := s.command.Start(); err != nil {
		return s, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if said, ok := strings.CutPrefix(line, readyWord); ok {
		return s, strings.TrimSpace(said), nil
	}
	s.stop()
	return s, "", fmt.Errorf("%s said %q instead of %q: %w", words[0], line, readyWord, err)
}

// stopTimeout is far more than any of them takes to end.
const stopTimeout = 5 * time.Second

// stop ends the process: callers end with their stdin, servers by the signal. How it
// ends does not matter any more.
func (s started) stop() {
	s.in.Close()
	_ = s.command.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(stopTimeout, func() { _ = s.command.Process.Kill() })
	_ = s.command.Wait()
	timer.Stop()
}
