package network

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A space is a network namespace with a thread of this process that is always in it. The
// namespace is gone when that thread, and all processes that were started in it, have ended.
type space struct {
	work   chan func()
	closed chan struct{}
	ended  chan struct{}
	path   string // of the namespace, as ip(8) takes it
}

func newSpace() (*space, error) {
	s := &space{work: make(chan func()), closed: make(chan struct{}), ended: make(chan struct{})}
	entered := make(chan error)
	go s.enter(entered)
	if err := <-entered; err != nil {
		return nil, fmt.Errorf("a network namespace cannot be made (that takes root): %w", err)
	}
	return s, nil
}

// enter makes the namespace in a thread that is not the first of the process: that one does not
// end before the process, and would keep the namespace.
func (s *space) enter(entered chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The next goroutine has another thread, because this one is taken.
		leave := make(chan error)
		go s.enter(leave)
		entered <- <-leave
		runtime.UnlockOSThread()
		return
	}
	defer close(s.ended)
	err := unix.Unshare(unix.CLONE_NEWNET)
	s.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
	entered <- err
	if err != nil {
		return
	}
	// When the goroutine ends, it has not given the thread back, so the thread ends as well.
	for {
		select {
		case work := <-s.work:
			work()
		case <-s.closed:
			return
		}
	}
}

// do runs a function in the namespace: sockets that it makes, and programs that it starts, are
// there.
func (s *space) do(work func() error) error {
	result := make(chan error, 1)
	select {
	case s.work <- func() { result <- work() }:
		return <-result
	case <-s.ended:
		return errClosed
	}
}

var errClosed = fmt.Errorf("the network was closed: %w", os.ErrClosed)

// close ends the thread, and with it the programs that it has started.
func (s *space) close() {
	close(s.closed)
	<-s.ended
}

// start starts a program that is killed when this process ends, or the space does.
func (s *space) start(command *exec.Cmd) error {
	if command.SysProcAttr == nil {
		command.SysProcAttr = new(syscall.SysProcAttr)
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return s.do(command.Start)
}

// run runs a program to its end, with input. What it said is in the error.
func (s *space) run(input string, command ...string) error {
	program := exec.Command(command[0], command[1:]...)
	program.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	program.Stdout, program.Stderr = &said, &said
	if err := s.start(program); err != nil {
		return err
	}
	if err := program.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, said.String())
	}
	return nil
}

// runAll runs one command line after the other, up to the first that fails.
func (s *space) runAll(lines ...string) error {
	for _, line := range lines {
		if err := s.run("", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// all runs functions one after the other, and returns what failed.
func all(steps ...func() error) error {
	var failures []error
	for _, step := range steps {
		failures = append(failures, step())
	}
	return errors.Join(failures...)
}
