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

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A mode is what is measured, and under which load.
type mode struct {
	call      calling.Timed
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
	report, err := m.call.Repeat(c.Length, m.samples)
	report.Transport = m.transport
	if m.busy > 0 {
		// That of the load is in it, on the same threads.
		report.CPU = protocol.CPUNotCounted
	}
	return report, err
}

// leastTime is less than a call takes with all that is around it: four readings of a
// clock.
const leastTime = 30 * time.Nanosecond
