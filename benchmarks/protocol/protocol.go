// Package protocol is what the Go callers share: it reads commands and writes
// reports as ../README.md has them ("Adding a caller").
package protocol

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// NotCounted is what a report says of allocations, or of CPU time, that it cannot tell.
const NotCounted = ^uint64(0)

// CPUNotCounted is the CPU of a Report that cannot tell it.
const CPUNotCounted time.Duration = -1

// A Transport is how calls went.
type Transport uint64

// The transports that a report can tell.
const (
	Unknown Transport = iota
	Socket
	SharedMemory
	SameProcess
	TCP
	TLS
)

// String returns the name that clients and results have for it; none for Unknown.
func (t Transport) String() string {
	switch t {
	case Socket:
		return "unix socket"
	case SharedMemory:
		return "shared memory"
	case SameProcess:
		return "same process"
	case TCP:
		return "tcp"
	case TLS:
		return "tls"
	}
	return ""
}

// TransportOf returns that of a client, by the name the client has for it.
func TransportOf(name string) Transport {
	for t := Socket; t <= TLS; t++ {
		if t.String() == name {
			return t
		}
	}
	return Unknown
}

// CallsOfASample is, in a run with windows, how many calls one sample is taken of: the
// first of them.
const CallsOfASample = 16

// A Head is how a report begins. One uint64 follows for each window of a run that has
// such, then one of ns for each sample.
type Head struct {
	Calls, ElapsedNS, CPUNS, Allocations, Samples uint64
	Transport                                     Transport
}

// A Report is what the callers of one process did in one run.
type Report struct {
	Samples [][]uint64 // ns, one for each call, by caller
	// CallsPerSample is how many calls one sample is of, all together; 0: one.
	CallsPerSample int
	// Calls are all, and Windows how many of them ended in each window, in a run that has
	// such; 0 and none in others.
	Calls     uint64
	Windows   []uint64
	Elapsed   time.Duration
	CPU       time.Duration
	Transport Transport
}

// A Command is one run.
type Command struct {
	Length    time.Duration
	PerSecond int   // 0: as fast as callers can
	BeginNS   int64 // of CLOCK_MONOTONIC; 0: at once
	// Window is how long the windows are by which calls are counted, that are made without
	// a pause; 0: there are none.
	Window time.Duration
}

// Windows is how many whole windows the run has.
func (c Command) Windows() int {
	if c.Window == 0 {
		return 0
	}
	return int(c.Length / c.Window)
}

// Serve says that the caller is ready and answers every command by a report, until
// standard input ends.
func Serve(run func(Command) (Report, error)) error {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, err := parse(lines.Text())
		if err != nil {
			return err
		}
		report, err := run(command)
		if err != nil {
			return err
		}
		if len(report.Windows) != command.Windows() {
			return ErrNoWindows
		}
		if err := report.write(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Commands that a caller does not know to follow.
var (
	ErrAsFastAsItCan = errors.New("this caller has neither a rate nor a time to begin")
	ErrNoWindows     = errors.New("this caller does not count its calls by windows")
)

// AsFastAsItCan is a run of a caller that calls neither at a rate nor from a given time
// on, and counts nothing by windows: it refuses commands that want it to.
func AsFastAsItCan(run func(Command) (Report, error)) func(Command) (Report, error) {
	return func(c Command) (Report, error) {
		if c.PerSecond != 0 || c.BeginNS != 0 {
			return Report{}, ErrAsFastAsItCan
		}
		if c.Window != 0 {
			return Report{}, ErrNoWindows
		}
		return run(c)
	}
}

func parse(line string) (Command, error) {
	var milliseconds, perSecond, beginNS, windowMS int64
	// What is left out is 0.
	_, err := fmt.Sscanf(line+" 0 0 0", "run %d %d %d %d", &milliseconds, &perSecond, &beginNS, &windowMS)
	if err != nil || milliseconds <= 0 || perSecond < 0 || perSecond > int64(time.Second) || windowMS < 0 || windowMS > 0 && perSecond > 0 {
		return Command{}, fmt.Errorf("expected \"run MILLISECONDS [CALLS_PER_SECOND [BEGIN_NS [WINDOW_MS]]]\", windows only without a rate, got %q", line)
	}
	return Command{time.Duration(milliseconds) * time.Millisecond, int(perSecond), beginNS, time.Duration(windowMS) * time.Millisecond}, nil
}

func (r Report) write() error {
	var samples uint64
	for _, s := range r.Samples {
		samples += uint64(len(s))
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	head := Head{
		Calls: cmp.Or(r.Calls, samples*uint64(max(r.CallsPerSample, 1))), ElapsedNS: uint64(r.Elapsed), CPUNS: uint64(r.CPU), Allocations: NotCounted,
		Samples: samples, Transport: r.Transport,
	}
	if err := binary.Write(out, binary.NativeEndian, head); err != nil {
		return err
	}
	// Who measures what the calls cost the machine stops now; the samples are no part of it.
	if err := out.Flush(); err != nil {
		return err
	}
	for _, s := range append([][]uint64{r.Windows}, r.Samples...) {
		if err := binary.Write(out, binary.NativeEndian, s); err != nil {
			return err
		}
	}
	return out.Flush()
}

// OwnCPU returns the CPU time that this process has used, and the programs it ran.
func OwnCPU() (time.Duration, error) {
	var own unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &own); err != nil {
		return 0, err
	}
	var children unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &children); err != nil {
		return 0, err
	}
	return time.Duration(own.Nano() + children.Utime.Nano() + children.Stime.Nano()), nil
}
