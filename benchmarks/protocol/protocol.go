// Package protocol is what the Go callers share: it reads commands and writes
// reports as ../README.md has them ("Adding a caller").
package protocol

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// NotCounted is what a report says of allocations.
const NotCounted = ^uint64(0)

// A Transport is how calls went.
type Transport uint64

// The transports that a report can tell.
const (
	Unknown Transport = iota
	Socket
	SharedMemory
)

// TransportOf returns that of a client, by the name the client has for it.
func TransportOf(name string) Transport {
	switch name {
	case "unix socket":
		return Socket
	case "shared memory":
		return SharedMemory
	}
	return Unknown
}

// A Report is what the callers of one process did in one run.
type Report struct {
	Samples   [][]uint64 // ns, one for each call, by caller
	Elapsed   time.Duration
	CPU       time.Duration
	Transport Transport
}

// Serve says that the caller is ready and answers every command by a report, until
// standard input ends.
func Serve(run func(length time.Duration) (Report, error)) error {
	fmt.Println("ready")
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		fields := strings.Fields(commands.Text())
		if len(fields) < 2 || fields[0] != "run" {
			return fmt.Errorf("expected \"run MILLISECONDS\", got %q", commands.Text())
		}
		milliseconds, err := strconv.Atoi(fields[1])
		if err != nil {
			return err
		}
		report, err := run(time.Duration(milliseconds) * time.Millisecond)
		if err != nil {
			return err
		}
		if err := report.write(); err != nil {
			return err
		}
	}
	return commands.Err()
}

func (r Report) write() error {
	var calls uint64
	for _, s := range r.Samples {
		calls += uint64(len(s))
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	head := []uint64{calls, uint64(r.Elapsed), uint64(r.CPU), NotCounted, calls, uint64(r.Transport)}
	if err := binary.Write(out, binary.NativeEndian, head); err != nil {
		return err
	}
	for _, s := range r.Samples {
		if err := binary.Write(out, binary.NativeEndian, s); err != nil {
			return err
		}
	}
	return out.Flush()
}

// OwnCPU returns the CPU time that this process has used.
func OwnCPU() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}
