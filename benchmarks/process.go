package main

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

const (
	readyTimeout = 15 * time.Second
	// complaintsDelay is how long a process that has ended may be heard.
	complaintsDelay = 100 * time.Millisecond
)

// A process is a server or a caller that runs beside this program. Both say
// "ready" on their first line.
type process struct {
	command    *exec.Cmd
	in         io.WriteCloser
	out        *bufio.Reader
	pipe       *os.File
	behind     *process // what works for this one; nil: nothing does
	complaints complaints
	said       string        // its first line
	ended      chan struct{} // closed when it has
}

// startProcess starts a program and waits until it is ready.
func startProcess(name string, args ...string) (*process, error) {
	p, err := startUnready(name, args...)
	if err != nil {
		return nil, err
	}
	if err := p.awaitReady(); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s did not get ready: %w%s", strings.Join(p.command.Args, " "), err, p.complaints.suffix())
	}
	return p, nil
}

// startUnready starts a program that does not say when it is ready.
func startUnready(name string, args ...string) (*process, error) {
	p := &process{command: exec.Command(name, args...), ended: make(chan struct{})}
	p.command.Stderr = &p.complaints
	// What it has started may keep its standard error, and stay.
	p.command.WaitDelay = complaintsDelay
	// Whatever becomes of this program, the processes end with it. Until then they are
	// its own to end: a terminal's signal goes to a whole group of processes, and these
	// are in others. setsid leaves its group itself, and is another process if it leads
	// one.
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: name != "setsid"}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.pipe, p.out = read, bufio.NewReaderSize(read, 1<<16)
	p.command.Stdout = write
	p.in, err = p.command.StdinPipe()
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

// end returns how the process has ended and what it said; nil while it runs.
func (p *process) end() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended: %s%s", filepath.Base(p.command.Path), p.command.ProcessState, p.complaints.suffix())
	case <-time.After(complaintsDelay): // who notices an end may be faster than its news
		return nil
	}
}

func (p *process) awaitReady() error {
	if err := p.pipe.SetReadDeadline(time.Now().Add(readyTimeout)); err != nil {
		return err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return err
	}
	if p.said = line; !strings.HasPrefix(line, readyWord) {
		return fmt.Errorf("it said %q", line)
	}
	return p.pipe.SetReadDeadline(time.Time{})
}

func (p *process) pid() int { return p.command.Process.Pid }

// stop ends the process and waits for its end.
func (p *process) stop() {
	p.in.Close()
	// Callers end with their stdin, servers by the signal.
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
	}
	timer := time.AfterFunc(readyTimeout, func() { p.command.Process.Kill() })
	<-p.ended
	timer.Stop()
	p.pipe.Close()
}
