// Command cgocaller measures what it costs Go to call C. Commands, report and what
// is timed are those of ../callers/caller.c; allocations are not counted.
//
//	cgocaller MODE ADDRESS PAYLOAD_BYTES [BUSY]
//
// With "out-one", "out-ack" and "out-md5" Go calls the functions of the published
// account, written in C. The others measure while BUSY goroutines spin: "later" calls an
// empty function of C; "first" does so from a new goroutine on a thread that has never
// called before, and times from before the goroutine is started to the function's return;
// "first-alone" times the function only; "memory" calls echo() of the server at ADDRESS
// through shared memory.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A subject makes one call and returns what it took in ns, its own way of timing
// included. ok is false where the call was not of the kind that is measured.
type subject func() (ns uint64, ok bool, err error)

// A mode is what is measured, and under which load.
type mode struct {
	call      subject
	busy      int
	transport protocol.Transport
	samples   []uint64 // of the last run; its memory is used again
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cgocaller:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 && len(args) != 4 {
		return errors.New("usage: cgocaller MODE ADDRESS PAYLOAD_BYTES [BUSY]")
	}
	var numbers [2]int
	for i, arg := range args[2:] {
		var err error
		if numbers[i], err = strconv.Atoi(arg); err != nil {
			return err
		}
	}
	m, err := open(args[0], args[1], numbers[0])
	if err != nil {
		return err
	}
	m.busy = numbers[1]
	return protocol.Serve(protocol.AsFastAsItCan(m.measure))
}

func open(name, address string, payloadBytes int) (mode, error) {
	switch name {
	case "out-one", "out-ack", "out-md5":
		return openOut(name)
	case "later":
		return mode{call: laterCall}, nil
	case "first":
		return mode{call: firstCallFromStart}, nil
	case "first-alone":
		return mode{call: firstCallAlone}, nil
	case "memory":
		return openMemory(address, payloadBytes)
	}
	return mode{}, fmt.Errorf("mode %q; see cgocaller/main.go", name)
}

func (m *mode) measure(c protocol.Command) (protocol.Report, error) {
	// More than there can be: what grows while calls are made would copy megabytes.
	m.samples = slices.Grow(m.samples[:0], int(c.Length/leastTime)+1)
	load := spin(m.busy)
	defer load.stop()
	cpu, err := protocol.OwnCPU()
	if err != nil {
		return protocol.Report{}, err
	}
	begin := time.Since(zero)
	if err := m.callUntil(begin + c.Length); err != nil {
		return protocol.Report{}, err
	}
	elapsed := time.Since(zero) - begin
	cpuAfter, err := protocol.OwnCPU()
	report := protocol.Report{Samples: [][]uint64{m.samples}, Elapsed: elapsed, CPU: cpuAfter - cpu, Transport: m.transport}
	if m.busy > 0 {
		// That of the load is in it, on the same threads.
		report.CPU = protocol.CPUNotCounted
	}
	return report, err
}

// leastTime is less than a call takes with all that is around it: four readings of a
// clock.
const leastTime = 30 * time.Nanosecond

var errNoCall = errors.New("none of the calls was of the kind that is measured")

// callUntil makes calls until that time, and one at least.
func (m *mode) callUntil(until time.Duration) error {
	for {
		ns, ok, err := m.call()
		if err != nil {
			return err
		}
		if ok {
			m.samples = append(m.samples, ns)
		}
		if time.Since(zero) > until {
			break
		}
	}
	if len(m.samples) == 0 {
		return errNoCall
	}
	return nil
}
