package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/rights/rightstest"
)

// serverProcess is the server under test: one that the runner started, or one
// at an address it was given (then only what can be seen from outside counts).
type serverProcess struct {
	address string
	process *exec.Cmd
	ended   chan struct{}
	log     string
}

// start starts what is judged: on this kernel, or where a filter says that it does not know
// SO_PASSRIGHTS and descriptors reach those who did not agree to them.
func start(process *exec.Cmd, oldKernel bool) error {
	if oldKernel {
		return rightstest.StartOnOldKernel(process)
	}
	return process.Start()
}

// startServer runs the server and returns when it says that it listens.
func (r *runner) startServer(arguments []string, folder string, oldKernel bool) (*serverProcess, error) {
	words := strings.Fields(r.server)
	address := r.listen
	if address == "" {
		address = "unix:" + filepath.Join(folder, "server.sock")
	}
	words = append(append(words, "-address", address), arguments...)
	process := exec.Command(words[0], words[1:]...)
	log, err := os.Create(filepath.Join(folder, "server.log"))
	if err != nil {
		return nil, err
	}
	process.Stderr = log
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(process, oldKernel); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		_ = process.Process.Kill()
		return nil, fmt.Errorf("%s did not get ready (%q, %v); its log is %s", words[0], line, err, log.Name())
	}
	s := &serverProcess{address: address, process: process, ended: make(chan struct{}), log: log.Name()}
	go func() {
		_ = process.Wait()
		close(s.ended)
	}()
	return s, nil
}

func (s *serverProcess) signal(name string) error {
	if name != "TERM" {
		return fmt.Errorf("signal %q: only TERM is used", name)
	}
	return s.process.Process.Signal(syscall.SIGTERM)
}

// dump makes a Go server write its stacks to its log, and says where that is.
func (s *serverProcess) dump() string {
	if s.process == nil || s.process.Process.Signal(syscall.SIGQUIT) != nil {
		return ""
	}
	<-s.ended
	return "; its stacks are in " + s.log
}

// stop asks the server to end and waits for it.
func (s *serverProcess) stop() error {
	if s.process == nil {
		return nil
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		if code := s.process.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("the server ended with status %d", code)
		}
		return nil
	case <-time.After(2 * patience):
		_ = s.process.Process.Kill()
		return fmt.Errorf("the server did not end on SIGTERM")
	}
}

func (s *serverProcess) alive() bool {
	if s.process == nil {
		return true
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// dialAddress connects to "unix:/path", "unix:@name", "tcp:host:port" or "tls:host:port".
func dialAddress(address string) (net.Conn, error) {
	network, target, _ := strings.Cut(address, ":")
	if network == "tls" {
		return dialSecure(target)
	}
	return (&net.Dialer{}).DialContext(context.Background(), network, target)
}

func (s *serverProcess) dial() (net.Conn, error) { return dialAddress(s.address) }

// descriptors counts the open descriptors of a process.
func descriptors(processID int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", processID))
	return len(entries), err
}

// residentBytes reads a process's memory; "VmRSS" is now, "VmHWM" the peak.
func residentBytes(processID int, member string) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", processID))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, member+":"); ok {
			number, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return number * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", processID, member)
}

// waitFor polls until the condition holds or the time is over.
func waitFor(bound time.Duration, condition func() (bool, error)) error {
	end := time.Now().Add(bound)
	for {
		holds, err := condition()
		if holds {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(200 * time.Microsecond)
	}
}
