//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/tests/machines/network"
)

const (
	// How long a server takes to start, at most.
	startTimeout = 20 * time.Second
	// How long it rests between its end and its next start, as a service manager lets it.
	restartAfter = 100 * time.Millisecond
	// Each start has a monotonic clock of its own, as another machine has.
	clockStep = 1000 * time.Second
)

// A service is a program on a host that is started again whenever it ends.
type service struct {
	host    *network.Host
	command []string

	mu      sync.Mutex
	running *exec.Cmd
	starts  int
	ended   chan struct{} // of the program that runs
}

func newService(host *network.Host, command ...string) *service {
	return &service{host: host, command: command}
}

// start starts the program, and returns when it says that it is ready.
func (s *service) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	command := append(network.Clock(time.Duration(s.starts)*clockStep), s.command...)
	program := exec.Command(command[0], command[1:]...)
	program.Stderr = os.Stderr
	output, err := program.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.host.Start(program); err != nil {
		return err
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return fmt.Errorf("the server on %s did not start: %w", s.host.Name, errors.Join(err, program.Wait()))
	}
	s.running, s.ended = program, make(chan struct{})
	go s.watch(program, s.ended)
	return nil
}

// watch starts the program again when it has ended.
func (s *service) watch(program *exec.Cmd, ended chan struct{}) {
	program.Wait()
	close(ended)
	time.Sleep(restartAfter)
	if err := s.start(); err != nil && !errors.Is(err, os.ErrClosed) {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (s *service) signal(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running.Process.Signal(signal)
}

// replace lets the program leave, and waits until the next one listens.
func (s *service) replace() error {
	s.mu.Lock()
	running, ended, starts := s.running, s.ended, s.starts
	s.mu.Unlock()
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-ended
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		next := s.starts
		s.mu.Unlock()
		if next > starts {
			return nil
		}
	}
	return fmt.Errorf("the server on %s was not started again", s.host.Name)
}
