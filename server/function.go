package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/dispatch"
)

// inlineRunTimeMax is how long a function may run on average and still be run
// by the goroutine that reads the connection: handing it to another goroutine
// costs a tenth of that.
const inlineRunTimeMax = 50 * time.Microsecond

// provenCalls is how many calls of a function show that it is quick.
const provenCalls = 100

// A function that has held others up is run apart for a number of calls that costs less
// than they lost: handing a call over costs a microsecond or two, and it is one call for
// every eight. Who is thought to be slow for no reason, because the machine was busy,
// thereby loses little besides what the machine took. The bound is for times as of a process
// that was stopped.
const (
	slowRunTimeMin  = watchTickNew
	slowTimePerCall = 8 * time.Microsecond
	slowCallsMax    = 100_000
)

// instantRunTimeMax is how long a function may run on average and be timed only
// now and then where calls come fast.
const instantRunTimeMax = time.Microsecond

// A function is a registered function with its limits and counters. Immutable
// but for the counters.
type function struct {
	*dispatch.Function
	id          uint32
	name        string
	description []byte
	check       uint32 // of the description
	raw         func(ctx context.Context, data []byte) ([]byte, error)
	maxRunTime  time.Duration
	slots       chan struct{} // nil, or one place per call that may run
	mayInline   bool          // nothing that is known forbids the reader to run it

	calls     atomic.Uint64
	provenAt  atomic.Uint64 // how many calls show that it is quick
	failures  atomic.Uint64
	timed     atomic.Uint64 // calls whose run time was taken
	runTimeNs atomic.Uint64 // of those
	averageNs atomic.Int64
	slowFor   atomic.Int64 // calls that are still to run apart
	expected  atomic.Int64 // bytes of the next result, 0 where the last were small
}

// inline reports whether the reading goroutine should run the function itself.
func (f *function) inline() bool {
	return f.mayInline && f.averageNs.Load() < int64(inlineRunTimeMax)
}

// watchTick returns how closely the reader is watched while it runs the
// function.
func (f *function) watchTick() time.Duration {
	if f.calls.Load() < f.provenAt.Load() {
		return watchTickNew
	}
	return watchTickProven
}

// instant reports whether the function has proved to run shorter than it takes
// to read the clock a few dozen times.
func (f *function) instant() bool {
	return f.averageNs.Load() < int64(instantRunTimeMax) && f.calls.Load() >= provenCalls
}

// count counts a call.
func (f *function) count(failed bool) {
	f.calls.Add(1)
	if failed {
		f.failures.Add(1)
	}
}

// ran counts a call whose run time was taken. The average is a moving one over
// about eight of them; updates that collide lose one, which does not matter.
func (f *function) ran(runTime time.Duration, failed bool) {
	f.count(failed)
	f.timed.Add(1)
	f.runTimeNs.Add(uint64(runTime))
	average := f.averageNs.Load()
	average += (int64(runTime) - average) / 8
	if runTime >= slowRunTimeMin {
		f.remember(runTime)
	}
	if average < int64(inlineRunTimeMax) && f.slowFor.Load() > 0 {
		f.slowFor.Add(-1)
		average = int64(inlineRunTimeMax)
	}
	f.averageNs.Store(average)
}

// remember keeps a function apart that ran for so long, and has it watched closely for
// as many calls again when they are over.
func (f *function) remember(runTime time.Duration) {
	calls := min(int64(runTime/slowTimePerCall), slowCallsMax)
	f.slowFor.Store(max(f.slowFor.Load(), calls))
	f.provenAt.Store(f.calls.Load() + 2*uint64(f.slowFor.Load()))
}

// runTimeTotalNs returns how long all calls ran, by those that were timed.
func (f *function) runTimeTotalNs() uint64 {
	timed := f.timed.Load()
	if timed == 0 {
		return 0
	}
	return uint64(float64(f.runTimeNs.Load()) * float64(f.calls.Load()) / float64(timed))
}

// blocked notes that a call held the reader up, so that the next ones do not.
func (f *function) blocked() {
	f.averageNs.Store(max(f.averageNs.Load(), 8*int64(inlineRunTimeMax)))
	f.remember(slowRunTimeMin)
}
