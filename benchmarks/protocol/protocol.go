// Package protocol is what the Go callers share: it reads commands and writes
// reports as ../README.md has them ("Adding a caller").
package protocol

import (
	"bufio"
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
	}
	return ""
}

// TransportOf returns that of a client, by the name the client has for it.
func TransportOf(name string) Transport {
	for t := Socket; t <= TCP; t++ {
		if t.String() == name {
			return t
		}
	}
	return Unknown
}

// A Head is how a report begins; one uint64 of ns for each sample follows.
type Head struct {
	Calls, ElapsedNS, CPUNS, Allocations, Samples uint64
	Transport                                     Transport
}

// A Report is what the callers of one process did in one run.
type Report struct {
	Samples [][]uint64 // ns, one for each call, by caller
	// CallsPerSample is how many calls one sample is of, all together; 0: one.
	CallsPerSample int
	Elapsed        time.Duration
	CPU            time.Duration
	Transport      Transport
}

// A Command is one run.
type Command struct {
	Length    time.Duration
	PerSecond int   // 0: as fast as callers can
	BeginNS   int64 // of CLOCK_MONOTONIC; 0: at once
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
		if err := report.write(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// ErrAsFastAsItCan is a command that a caller does not know to follow.
var ErrAsFastAsItCan = errors.New("this caller has neither a rate nor a time to begin")

// AsFastAsItCan is a run of a caller that calls neither at a rate nor from a given time
// on: it refuses commands that want it to.
func AsFastAsItCan(run func(Command) (Report, error)) func(Command) (Report, error) {
	return func(c Command) (Report, error) {
		if c.PerSecond != 0 || c.BeginNS != 0 {
			return Report{}, ErrAsFastAsItCan
		}
		return run(c)
	}
}

func parse(line string) (Command, error) {
	var milliseconds, perSecond, beginNS int64
	// What is left out is 0.
	_, err := fmt.Sscanf(line+" 0 0", "run %d %d %d", &milliseconds, &perSecond, &beginNS)
	if err != nil || milliseconds <= 0 || perSecond < 0 || perSecond > int64(time.Second) {
		return Command{}, fmt.Errorf("expected \"run MILLISECONDS [CALLS_PER_SECOND [BEGIN_NS]]\", got %q", line)
	}
	return Command{time.Duration(milliseconds) * time.Millisecond, int(perSecond), beginNS}, nil
}

func (r Report) write() error {
	var samples uint64
	for _, s := range r.Samples {
		samples += uint64(len(s))
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	head := Head{
		Calls: samples * uint64(max(r.CallsPerSample, 1)), ElapsedNS: uint64(r.Elapsed), CPUNS: uint64(r.CPU), Allocations: NotCounted,
		Samples: samples, Transport: r.Transport,
	}
	if err := binary.Write(out, binary.NativeEndian, head); err != nil {
		return err
	}
	// Who measures what the calls cost the machine stops now; the samples are no part of it.
	if err := out.Flush(); err != nil {
		return err
	}
	for _, s := range r.Samples {
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
