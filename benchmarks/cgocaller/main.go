// Command cgocaller measures what it costs Go to call C. Commands, report and what
// is timed are those of ../callers/caller.c; allocations are not counted.
//
//	cgocaller MODE ADDRESS PAYLOAD_BYTES [BUSY CALLS_MAX]
//
// With "out-one", "out-ack" and "out-md5" Go calls the functions of the published
// account, written in C. The others measure while BUSY goroutines spin, and make at
// most CALLS_MAX calls in a run: "later" calls an empty function of C; "first" does so
// from a goroutine on a thread that has never called before, and times from the
// goroutine's start to its return; "memory" calls echo() of the server at ADDRESS through
// shared memory.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A subject makes one call and returns what it took in ns, its own way of timing
// included. ok is false where the call was not of the kind that is measured.
type subject func() (ns uint64, ok bool, err error)

// A machine is what one mode measures, and under which load.
type machine struct {
	call      subject
	busy      int
	callsMax  int // 0: no bound
	transport protocol.Transport
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cgocaller:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 && len(args) != 5 {
		return errors.New("usage: cgocaller MODE ADDRESS PAYLOAD_BYTES [BUSY CALLS_MAX]")
	}
	var numbers [3]int
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
	m.busy, m.callsMax = numbers[1], numbers[2]
	return protocol.Serve(m.measure)
}

func open(mode, address string, payloadBytes int) (machine, error) {
	switch mode {
	case "out-one", "out-ack", "out-md5":
		return openOut(mode)
	case "later":
		return machine{call: laterCall}, nil
	case "first":
		return machine{call: newThreads().firstCall}, nil
	case "memory":
		return openMemory(address, payloadBytes)
	}
	return machine{}, fmt.Errorf("mode %q; see cgocaller/main.go", mode)
}

func (m machine) measure(c protocol.Command) (protocol.Report, error) {
	cpu, err := protocol.OwnCPU()
	if err != nil {
		return protocol.Report{}, err
	}
	stop := spin(m.busy)
	begin := time.Now()
	samples, err := m.callUntil(begin.Add(c.Length))
	elapsed := time.Since(begin)
	stop()
	cpuAfter, cpuErr := protocol.OwnCPU()
	return protocol.Report{Samples: [][]uint64{samples}, Elapsed: elapsed, CPU: cpuAfter - cpu, Transport: m.transport}, errors.Join(err, cpuErr)
}

func (m machine) callUntil(until time.Time) ([]uint64, error) {
	samples := make([]uint64, 0, max(m.callsMax, 1<<16))
	for m.callsMax == 0 || len(samples) < m.callsMax {
		ns, ok, err := m.call()
		if err != nil {
			return nil, err
		}
		if ok {
			samples = append(samples, ns)
		}
		if time.Now().After(until) && len(samples) > 0 {
			break
		}
	}
	return samples, nil
}
