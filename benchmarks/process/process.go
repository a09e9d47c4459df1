// Package process starts servers and callers beside a program of the benchmarks, waits
// until they are ready, and ends them.
package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// readyWord begins the first line of what is ready.
const readyWord = "ready"

// ReadyTimeout is far more than a process takes to get ready, or to end.
const ReadyTimeout = 15 * time.Second

// complaintsDelay is how long a process that has ended may be heard.
const complaintsDelay = 100 * time.Millisecond

// A Process is a server or a caller that runs beside this program. Both say
// "ready" on their first line.
type Process struct {
	In         io.WriteCloser // callers end with it
	Out        *bufio.Reader  // what comes after the first line
	Said       string         // what its first line has after "ready"
	Behind     *Process       // what works for this one; nil: nothing does
	command    *exec.Cmd
	pipe       *os.File
	complaints complaints
	ended      chan struct{} // closed when it has
}

// Of is a process that runs already, of which nothing but the number is known.
func Of(own *os.Process) *Process { return &Process{command: &exec.Cmd{Process: own}} }

// Start starts a program and waits until it is ready.
func Start(command ...string) (*Process, error) {
	p, err := StartUnready(command...)
	if err != nil {
		return nil, err
	}
	if err := p.AwaitReady(); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s did not get ready: %w%s", strings.Join(p.command.Args, " "), err, p.Complaints())
	}
	return p, nil
}

// StartUnready starts a program that does not say when it is ready.
func StartUnready(command ...string) (*Process, error) {
	p := &Process{command: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.command.Stderr = &p.complaints
	// What it has started may keep its standard error, and stay.
	p.command.WaitDelay = complaintsDelay
	// Whatever becomes of this program, the processes end with it. Until then they are
	// its own to end: a terminal's signal goes to a whole group of processes, and these
	// are in others. setsid leaves its group itself, and is another process if it leads
	// one.
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: command[0] != "setsid"}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.pipe, p.Out = read, bufio.NewReaderSize(read, 1<<16)
	p.command.Stdout = write
	p.In, err = p.command.StdinPipe()
	if err == nil {
		err = p.command.Start()
	}
	write.Close()
	if err != nil {
		read.Close()
		return nil, err
	}
	go func() {
		p.command.Wait() // its state tells more than the error
		close(p.ended)
	}()
	return p, nil
}

// End returns how the process has ended and what it said; nil while it runs.
func (p *Process) End() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended: %s%s", filepath.Base(p.command.Path), p.command.ProcessState, p.Complaints())
	case <-time.After(complaintsDelay): // who notices an end may be faster than its news
		return nil
	}
}

// AwaitReady waits until a process that was started unready says that it is.
func (p *Process) AwaitReady() error {
	if err := p.pipe.SetReadDeadline(time.Now().Add(ReadyTimeout)); err != nil {
		return err
	}
	line, err := p.Out.ReadString('\n')
	if err != nil {
		return err
	}
	said, ready := strings.CutPrefix(line, readyWord)
	if !ready {
		return fmt.Errorf("it said %q", line)
	}
	p.Said = strings.TrimSpace(said)
	return p.pipe.SetReadDeadline(time.Time{})
}

// PID is its number.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// ExitCode is that of a process that has ended.
func (p *Process) ExitCode() int { return p.command.ProcessState.ExitCode() }

// SetReadDeadline is until when Out may be waited for.
func (p *Process) SetReadDeadline(deadline time.Time) error { return p.pipe.SetReadDeadline(deadline) }

// Complaints are what the process has written to standard error, to be added to an error's
// text.
func (p *Process) Complaints() string { return p.complaints.suffix() }

// Output runs a program to its end, with further variables of its environment, and returns what it printed.
func Output(environment []string, command ...string) (string, error) {
	run := exec.Command(command[0], command[1:]...)
	run.Env = append(os.Environ(), environment...)
	text, err := run.Output()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		err = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(text), err
}

// Stop ends the process and waits for its end.
func (p *Process) Stop() {
	p.In.Close()
	// Callers end with their stdin, servers by the signal.
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
	}
	timer := time.AfterFunc(ReadyTimeout, func() { p.command.Process.Kill() })
	<-p.ended
	timer.Stop()
	p.pipe.Close()
}
