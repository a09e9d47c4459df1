package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/sample"
	"github.com/nearcall/nearcall/internal/windows"
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
	// What a row that is counted by windows has beside: the calls that ended in each, and how
	// many CPUs who else has the machine had.
	window  time.Duration
	windows []uint64
	beside  float64
}

// A turn is what callers are told to do once.
type turn struct {
	length    time.Duration
	about     time.Duration    // how long it takes where that is not its length; 0: it is
	perSecond int              // 0: as fast as they can
	window    time.Duration    // how long the windows are by which calls are counted; 0: there are none
	beside    *process.Process // who else has the machine; nil: nobody
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

// windows is how many whole windows the turn has.
func (t turn) windows() int {
	return protocol.Command{Length: t.length, Window: t.window}.Windows()
}

// measure lets callers take their turn, all at once, and reduces their reports.
// server is the clock of who answers. It, kernel and the clock of who else has the
// machine count until the last caller begins its report: to send samples is no call.
func measure(callers []*process.Process, server cpuClock, kernel *kernelWatch, t turn) (round, error) {
	before, err := server()
	if err == nil {
		err = kernel.begin()
	}
	if err != nil {
		return round{}, err
	}
	beside, err := watchBeside(t.beside)
	if err != nil {
		return round{}, err
	}
	if err := tellCallers(callers, t); err != nil {
		return round{}, err
	}
	heads, err := readHeads(callers, time.Now().Add(t.timeout()))
	if err != nil {
		return round{}, err
	}
	work, err := kernel.end()
	if err != nil {
		return round{}, err
	}
	after, err := server()
	if err != nil {
		return round{}, err
	}
	r := together(heads)
	r.serverCPU, r.kernel = spent(before, after), work
	if r.beside, err = beside.share(); err != nil {
		return round{}, err
	}
	return r, r.readCounts(callers, heads, t)
}

// readHeads waits for the reports of all callers and reads how they begin.
func readHeads(callers []*process.Process, deadline time.Time) ([]protocol.Head, error) {
	heads := make([]protocol.Head, len(callers))
	for i, caller := range callers {
		if err := caller.SetReadDeadline(deadline); err != nil {
			return nil, err
		}
		if err := binary.Read(caller.Out, binary.NativeEndian, &heads[i]); err != nil {
			return nil, fmt.Errorf("no report: %w", err)
		}
	}
	return heads, nil
}

// readCounts reads what else is in the reports: windows and samples.
func (r *round) readCounts(callers []*process.Process, heads []protocol.Head, t turn) error {
	for i, caller := range callers {
		if t.window > 0 {
			counts := make([]uint64, t.windows())
			if err := binary.Read(caller.Out, binary.NativeEndian, counts); err != nil {
				return fmt.Errorf("the report breaks off: %w", err)
			}
			r.windows = windows.AddUp(r.windows, counts)
		}
		var err error
		if r.samples, err = appendSamples(r.samples, caller.Out, heads[i].Samples); err != nil {
			return err
		}
	}
	slices.Sort(r.samples)
	r.window, r.perSample = t.window, 1
	if t.window == 0 {
		r.perSample = r.calls / uint64(len(r.samples))
	}
	r.p10 = float64(sample.Percentile(r.samples, 0.10))
	r.p50 = float64(sample.Percentile(r.samples, 0.50))
	r.p99 = float64(sample.Percentile(r.samples, 0.99))
	return nil
}

// tellCallers lets callers begin: one at once, several at the same time.
func tellCallers(callers []*process.Process, t turn) error {
	begin := int64(0)
	if len(callers) > 1 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return err
		}
		begin = now.Nano() + int64(togetherLead) + int64(len(callers))*int64(togetherPerCaller)
	}
	line := fmt.Sprintf("run %d %d %d", t.length.Milliseconds(), t.perSecond, begin)
	if t.window > 0 {
		line += fmt.Sprintf(" %d", t.window.Milliseconds())
	}
	for _, caller := range callers {
		if _, err := fmt.Fprintln(caller.In, line); err != nil {
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
