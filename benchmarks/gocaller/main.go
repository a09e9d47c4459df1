// Command gocaller is the Go caller: it measures one way to call, when it is told
// to. Commands, report and what is timed are those of callers/caller.c, which
// also says how; allocations are not counted.
//
//	gocaller MODE ADDRESS PAYLOAD_BYTES CALLERS [CALLS_PER_MS]
//
// The callers are goroutines. With "shared" they share one client, with "each" each
// has a client of its own, with "bare" a connection of its own to an echo server with
// a length prefix. With "oneshot" each call has a client of its own, with
// "persistent" each caller has; "oneshot-timeout" and "persistent-timeout" are these with
// a deadline.
//
// With CALLS_PER_MS every caller makes so many calls for every millisecond of a run,
// however long that takes: the same work for all.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A subject makes one call. Each caller has its own.
type subject func() error

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gocaller:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 && len(args) != 5 {
		return fmt.Errorf("usage: gocaller MODE ADDRESS PAYLOAD_BYTES CALLERS [CALLS_PER_MS]")
	}
	var numbers [3]int
	for i, arg := range args[2:] {
		var err error
		if numbers[i], err = strconv.Atoi(arg); err != nil {
			return err
		}
	}
	all, err := openSubjects(args[0], args[1], numbers[0], numbers[1])
	if err != nil {
		return err
	}
	return protocol.Serve(func(length time.Duration) (protocol.Report, error) {
		return all.measure(length, numbers[2]*int(length.Milliseconds()))
	})
}

// subjects are the callers of this process.
type subjects struct {
	calls []subject
	// transport tells how the calls went; nil where nothing can.
	transport func() string
}

func openSubjects(mode, address string, payloadBytes, callers int) (subjects, error) {
	payload := make([]byte, payloadBytes)
	for i := range payload {
		payload[i] = byte(i*31 + 7)
	}
	switch mode {
	case "bare":
		return openBare(address, payload, callers)
	case "shared":
		return openShared(address, payload, callers)
	case "each":
		return openEach(address, payload, callers, withDeadline)
	case "persistent":
		return openEach(address, payload, callers, noDeadline)
	case "persistent-timeout":
		return openEach(address, payload, callers, withDeadline)
	case "oneshot":
		return openOneShot(address, payload, callers, noDeadline)
	case "oneshot-timeout":
		return openOneShot(address, payload, callers, withDeadline)
	}
	return subjects{}, fmt.Errorf("mode %q; see gocaller/main.go", mode)
}

// measure lets all call: until length has passed, or, with count, so often each.
func (all subjects) measure(length time.Duration, count int) (protocol.Report, error) {
	samples := make([][]uint64, len(all.calls))
	failures := make([]error, len(all.calls))
	cpu, err := protocol.OwnCPU()
	if err != nil {
		return protocol.Report{}, err
	}
	begin := time.Now()
	var callers sync.WaitGroup
	for i, call := range all.calls {
		callers.Go(func() {
			if count > 0 {
				samples[i], failures[i] = callTimes(call, count)
			} else {
				samples[i], failures[i] = callUntil(call, begin.Add(length))
			}
		})
	}
	callers.Wait()
	elapsed := time.Since(begin)
	cpuAfter, err := protocol.OwnCPU()
	if err := errors.Join(append(failures, err)...); err != nil {
		return protocol.Report{}, err
	}
	r := protocol.Report{Samples: samples, Elapsed: elapsed, CPU: cpuAfter - cpu}
	if all.transport != nil {
		r.Transport = protocol.TransportOf(all.transport())
	}
	return r, nil
}

func callUntil(call subject, until time.Time) ([]uint64, error) {
	samples := make([]uint64, 0, 1<<14)
	for {
		begin := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		end := time.Now()
		samples = append(samples, uint64(end.Sub(begin)))
		if end.After(until) {
			return samples, nil
		}
	}
}

func callTimes(call subject, count int) ([]uint64, error) {
	samples := make([]uint64, count)
	for i := range samples {
		begin := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		samples[i] = uint64(time.Since(begin))
	}
	return samples, nil
}
