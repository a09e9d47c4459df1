// Package calling is what callers of Go do in a run: call as fast as they can, at fixed
// times, so often, or without a pause. What is timed is as in ../callers/caller.c.
package calling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/internal/windows"
)

// A Call makes one call and checks its answer cheaply. Each caller has its own, and is
// a goroutine.
type Call func() error

// payloadSeed is what the bytes of payloads begin with, in every program.
const payloadSeed = 1

// Payload returns bytes that no short cut could guess and nothing could compress, the
// same in every program.
func Payload(size int) []byte { return PayloadOf(0, size) }

// PayloadOf returns the payload of one of several callers, unlike all others'.
func PayloadOf(caller, size int) []byte {
	payload := make([]byte, size)
	state := uint32(payloadSeed + caller)
	for i := range payload {
		state = state*1664525 + 1013904223
		payload[i] = byte(state >> 24)
	}
	return payload
}

// Callers call at the same time. What their samples are kept in stays from run to run:
// to make it is not what is measured.
type Callers struct {
	calls   []Call
	samples [][]uint64
	clock   clock
}

// New returns callers, each with one of these calls.
func New(calls []Call) *Callers { return &Callers{calls, make([][]uint64, len(calls)), newClock()} }

// samplesMin is room for those of a slow caller.
const samplesMin = 1 << 10

// Measure lets all call: as the command has it or, with count, so often each. The
// samples of the report are good until the next call of Measure.
func (all *Callers) Measure(c protocol.Command, count int) (protocol.Report, error) {
	if c.Window > 0 && count > 0 {
		return protocol.Report{}, protocol.ErrNoWindows
	}
	failures, counters := make([]error, len(all.calls)), make([]*windows.Counter, len(all.calls))
	for i := range all.samples {
		all.samples[i] = slices.Grow(all.samples[i][:0], max(count, samplesMin))
	}
	if c.BeginNS > 0 {
		all.clock.sleepUntil(c.BeginNS)
	}
	cpu, err := protocol.OwnCPU()
	if err != nil {
		return protocol.Report{}, err
	}
	begin := all.clock.now()
	var callers sync.WaitGroup
	for i := range all.calls {
		if c.Window > 0 {
			counters[i] = windows.NewCounter(begin, c.Length, c.Window)
		}
		callers.Go(func() { all.samples[i], failures[i] = all.run(i, begin, c, count, counters[i]) })
	}
	callers.Wait()
	elapsed := time.Duration(all.clock.now() - begin)
	cpuAfter, err := protocol.OwnCPU()
	if err := errors.Join(append(failures, err)...); err != nil {
		return protocol.Report{}, err
	}
	report := protocol.Report{Samples: all.samples, Elapsed: elapsed, CPU: cpuAfter - cpu}
	for _, counter := range counters {
		if counter != nil {
			report.Calls += counter.Calls()
			report.Windows = windows.AddUp(report.Windows, counter.Counts())
		}
	}
	return report, nil
}

// run lets one caller call in the way that is wanted.
func (all *Callers) run(caller int, beginNS int64, c protocol.Command, count int, counter *windows.Counter) ([]uint64, error) {
	call, samples, untilNS := all.calls[caller], all.samples[caller], beginNS+int64(c.Length)
	switch {
	case count > 0:
		return call.times(all.clock, samples, count)
	case counter != nil:
		return call.sustained(all.clock, samples, beginNS, untilNS, counter)
	case c.PerSecond > 0:
		return call.paced(all.clock, samples, beginNS, untilNS, int64(time.Second)/int64(c.PerSecond))
	}
	return call.until(all.clock, samples, untilNS)
}

func (call Call) times(clock clock, samples []uint64, count int) ([]uint64, error) {
	for range count {
		begin := clock.now()
		if err := call(); err != nil {
			return samples, err
		}
		samples = append(samples, uint64(clock.now()-begin))
	}
	return samples, nil
}

func (call Call) until(clock clock, samples []uint64, untilNS int64) ([]uint64, error) {
	for {
		begin := clock.now()
		if err := call(); err != nil {
			return samples, err
		}
		end := clock.now()
		samples = append(samples, uint64(end-begin))
		if end >= untilNS {
			return samples, nil
		}
	}
}

// sustained calls without a pause and counts by windows. Each call is timed from the end
// of the one before, so that no time is left out.
func (call Call) sustained(clock timer, samples []uint64, beginNS, untilNS int64, counter *windows.Counter) ([]uint64, error) {
	for last := beginNS; last < untilNS; {
		if err := call(); err != nil {
			return samples, err
		}
		end := clock.now()
		if counter.Calls()%protocol.CallsOfASample == 0 {
			samples = append(samples, uint64(end-last))
		}
		counter.Add(end)
		last = end
	}
	return samples, nil
}

// timerLateMax is how late a timer may wake a caller, whose call is timed from then.
// What is later than this, or than the time between two calls, is a stall, and counts.
const timerLateMax = time.Millisecond

// paced calls at fixed times: all calls that are due, however long that takes. One that
// another delayed, or a stall of the machine, is timed from when it was due.
func (call Call) paced(clock timer, samples []uint64, beginNS, untilNS, paceNS int64) ([]uint64, error) {
	lateMax := min(paceNS, int64(timerLateMax))
	for due := beginNS + paceNS; due <= untilNS || due == beginNS+paceNS; due += paceNS {
		from := due
		if clock.now() < due {
			clock.sleepUntil(due)
			if woken := clock.now(); woken-due <= lateMax {
				from = woken
			}
		}
		if err := call(); err != nil {
			return samples, err
		}
		samples = append(samples, uint64(clock.now()-from))
	}
	return samples, nil
}

// Socket returns the path in an address "unix:/path".
func Socket(address string) (string, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return "", fmt.Errorf("%s: expected unix:/path", address)
	}
	return path, nil
}
