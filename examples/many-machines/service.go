//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/tests/machines/network"
)

const (
	// How long a program takes to start, at most.
	startTimeout = 20 * time.Second
	// How long it rests between its end and its next start, as a service manager lets it.
	restartAfter = 100 * time.Millisecond
	// Each start has a monotonic clock of its own, as another machine has.
	clockStep = 1000 * time.Second
)

// A service is a program on a host that is started again whenever it ends.
type service struct {
	scene    *scene
	host     *network.Host
	command  []string
	notifies bool // it says that it is ready as services of systemd do, and otherwise by a line

	mu      sync.Mutex
	running *exec.Cmd
	starts  int
	ended   chan struct{} // of the program that runs
}

func (s *scene) newService(host string, notifies bool, command ...string) *service {
	return &service{scene: s, host: s.hosts[host], command: command, notifies: notifies}
}

// start starts the program, and returns when it says that it is ready.
func (s *service) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	command := append(network.Clock(time.Duration(s.starts)*clockStep), s.command...)
	program := exec.Command(command[0], command[1:]...)
	program.Stderr = s.scene.log
	await := s.awaitLine
	if s.notifies {
		await = s.awaitNotice
	}
	if err := await(program); err != nil {
		return fmt.Errorf("%s on host %s did not start: %w", filepath.Base(s.command[0]), s.host.Name, err)
	}
	s.running, s.ended = program, make(chan struct{})
	go s.watch(program, s.ended)
	return nil
}

// awaitLine starts a program that prints a line when it is ready.
func (s *service) awaitLine(program *exec.Cmd) error {
	output, err := program.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.host.Start(program); err != nil {
		return err
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return errors.Join(err, program.Wait())
	}
	return nil
}

// awaitNotice starts a program that sends READY=1 to a socket when it is ready.
func (s *service) awaitNotice(program *exec.Cmd) error {
	path := s.scene.file("notices-" + s.host.Name)
	os.Remove(path)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer socket.Close()
	program.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	if err := s.host.Start(program); err != nil {
		return err
	}
	socket.SetReadDeadline(time.Now().Add(startTimeout))
	notice := make([]byte, 4096)
	for {
		count, err := socket.Read(notice)
		if err != nil {
			program.Process.Kill()
			return errors.Join(err, program.Wait())
		}
		if strings.Contains(string(notice[:count]), "READY=1") {
			return nil
		}
	}
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

// replace lets the program leave, and waits until the next one is ready.
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
	return fmt.Errorf("%s on host %s was not started again", filepath.Base(s.command[0]), s.host.Name)
}
