package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// A round is what the callers of one row did in one round, all together.
type round struct {
	calls       uint64
	perSample   uint64  // how many calls a sample is of
	p10         float64 // ns
	p50, p99    float64 // ns
	perSecond   float64
	callerCPU   *time.Duration // nil: not counted
	serverCPU   *time.Duration
	allocations uint64
	transports  []protocol.Transport // of each caller that differs, in ascending order
	kernel      kernelWork
	samples     []uint64 // ns, in ascending order; nil once they are counted
}

// A turn is what callers are told to do once.
type turn struct {
	length    time.Duration
	about     time.Duration // how long it takes where that is not its length; 0: it is
	perSecond int           // 0: as fast as they can
}

const (
	// reportTimeout is how long after its turn a caller may report; a call ends within 30
	// seconds, whatever happens to it.
	reportTimeout = 45 * time.Second
	// slowestMachine is how many times as long as planned a turn may take that is so many
	// calls, and not a time.
	slowestMachine = 10
)

// timeout is when a caller has not kept to its turn.
func (t turn) timeout() time.Duration { return max(t.length, slowestMachine*t.about) + reportTimeout }

// What it takes to tell callers that all begin at the same time.
const (
	togetherLead      = 2 * time.Millisecond
	togetherPerCaller = 50 * time.Microsecond
)

// measure lets callers take their turn, all at once, and reduces their reports.
// server is the clock of who answers. It and kernel count until the last caller begins
// its report: to send samples is no call.
func measure(callers []*process, server cpuClock, kernel *kernelWatch, t turn) (round, error) {
	before, err := server()
	if err == nil {
		err = kernel.begin()
	}
	if err != nil {
		return round{}, err
	}
	if err := tellCallers(callers, t); err != nil {
		return round{}, err
	}
	heads := make([]protocol.Head, len(callers))
	deadline := time.Now().Add(t.timeout())
	for i, caller := range callers {
		if err := caller.pipe.SetReadDeadline(deadline); err != nil {
			return round{}, err
		}
		if err := binary.Read(caller.out, binary.NativeEndian, &heads[i]); err != nil {
			return round{}, fmt.Errorf("no report: %w", err)
		}
	}
	work, err := kernel.end()
	if err != nil {
		return round{}, err
	}
	after, err := server()
	if err != nil {
		return round{}, err
	}
	var samples []uint64
	for i, caller := range callers {
		samples, err = appendSamples(samples, caller.out, heads[i].Samples)
		if err != nil {
			return round{}, err
		}
	}
	slices.Sort(samples)
	r := together(heads)
	r.serverCPU, r.kernel = spent(before, after), work
	r.samples, r.perSample = samples, r.calls/uint64(len(samples))
	r.p10 = float64(sample.Percentile(samples, 0.10))
	r.p50 = float64(sample.Percentile(samples, 0.50))
	r.p99 = float64(sample.Percentile(samples, 0.99))
	return r, nil
}

// tellCallers lets callers begin: one at once, several at the same time.
func tellCallers(callers []*process, t turn) error {
	begin := int64(0)
	if len(callers) > 1 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return err
		}
		begin = now.Nano() + int64(togetherLead) + int64(len(callers))*int64(togetherPerCaller)
	}
	for _, caller := range callers {
		if _, err := fmt.Fprintf(caller.in, "run %d %d %d\n", t.length.Milliseconds(), t.perSecond, begin); err != nil {
			return err
		}
	}
	return nil
}

// together adds up what callers did at the same time.
func together(heads []protocol.Head) round {
	r := round{callerCPU: new(time.Duration(0))}
	for _, head := range heads {
		r.calls += head.Calls
		r.perSecond += float64(head.Calls) / time.Duration(head.ElapsedNS).Seconds()
		r.transports = append(r.transports, head.Transport)
		if head.CPUNS == protocol.NotCounted {
			r.callerCPU = nil
		} else if r.callerCPU != nil {
			*r.callerCPU += time.Duration(head.CPUNS)
		}
		if head.Allocations == protocol.NotCounted {
			r.allocations = protocol.NotCounted
		} else if r.allocations != protocol.NotCounted {
			r.allocations += head.Allocations
		}
	}
	slices.Sort(r.transports)
	r.transports = slices.Compact(r.transports)
	return r
}

// appendSamples reads the samples of one caller; at least one.
func appendSamples(samples []uint64, from io.Reader, count uint64) ([]uint64, error) {
	if count == 0 {
		return nil, fmt.Errorf("not one call was made")
	}
	begin := len(samples)
	samples = append(samples, make([]uint64, count)...)
	if err := binary.Read(from, binary.NativeEndian, samples[begin:]); err != nil {
		return nil, fmt.Errorf("the report breaks off: %w", err)
	}
	return samples, nil
}
