// Package calling is what callers of Go do in a run: call as fast as they can, at fixed
// times, or so often. What is timed is as in ../callers/caller.c.
package calling

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A Call makes one call and checks its answer cheaply. Each caller has its own, and is
// a goroutine.
type Call func() error

// Payload returns bytes that no short cut could guess, the same in every program.
func Payload(size int) []byte {
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(i*31 + 7)
	}
	return payload
}

// Measure lets all call: as the command has it or, with count, so often each.
func Measure(calls []Call, c protocol.Command, count int) (protocol.Report, error) {
	samples := make([][]uint64, len(calls))
	failures := make([]error, len(calls))
	if c.BeginNS > 0 {
		sleepUntil(c.BeginNS)
	}
	cpu, err := protocol.OwnCPU()
	if err != nil {
		return protocol.Report{}, err
	}
	begin := time.Now()
	var callers sync.WaitGroup
	for i, call := range calls {
		callers.Go(func() {
			switch {
			case count > 0:
				samples[i], failures[i] = callTimes(call, count)
			case c.PerSecond > 0:
				samples[i], failures[i] = callPaced(call, begin.Add(c.Length), time.Second/time.Duration(c.PerSecond))
			default:
				samples[i], failures[i] = callUntil(call, begin.Add(c.Length))
			}
		})
	}
	callers.Wait()
	elapsed := time.Since(begin)
	cpuAfter, err := protocol.OwnCPU()
	if err := errors.Join(append(failures, err)...); err != nil {
		return protocol.Report{}, err
	}
	return protocol.Report{Samples: samples, Elapsed: elapsed, CPU: cpuAfter - cpu}, nil
}

func callTimes(call Call, count int) ([]uint64, error) {
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

func callUntil(call Call, until time.Time) ([]uint64, error) {
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

// callPaced calls at fixed times. A call that the one before it delayed is timed from
// when it was due.
func callPaced(call Call, until time.Time, pace time.Duration) ([]uint64, error) {
	var samples []uint64
	due := nowNS()
	for time.Now().Before(until) {
		due += int64(pace)
		begin := due
		if nowNS() < due {
			sleepUntil(due)
			begin = nowNS()
		}
		if err := call(); err != nil {
			return nil, err
		}
		samples = append(samples, uint64(nowNS()-begin))
	}
	return samples, nil
}

func nowNS() int64 {
	var now unix.Timespec
	// It has no way to fail: the clock exists, the address is good.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}

// sleepUntil sleeps by the kernel's clock: Go's own timers are off by up to a
// millisecond, a whole pace.
func sleepUntil(dueNS int64) {
	due := unix.NsecToTimespec(dueNS)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &due, nil) != nil {
		continue
	}
}

// Socket returns the path in an address "unix:/path".
func Socket(address string) (string, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return "", fmt.Errorf("%s: expected unix:/path", address)
	}
	return path, nil
}
