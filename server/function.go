package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/dispatch"
)

// inlineRunTimeMax is how long a function may take on average and still be run by the
// reader of the connection. Handing a call to another goroutine costs a tenth of that.
const inlineRunTimeMax = 50 * time.Microsecond

// provenCalls is how many calls it takes to show that a function is quick.
const provenCalls = 100

// A function that has held up other calls runs apart for a number of calls. That must
// cost less than the delay that it caused: handing a call over costs one or two
// microseconds, and there is one such call for every eight microseconds of delay. So a
// function that only seemed slow, because the machine was busy, loses little more than
// the time that the machine took. The bound applies to very long times, such as those
// of a process that was stopped.
const (
	slowRunTimeMin  = watchTickNew
	slowTimePerCall = 8 * time.Microsecond
	slowCallsMax    = 100_000
)

// instantRunTimeMax is how long a function may take on average so that, when calls come
// fast, only some of them are timed.
const instantRunTimeMax = time.Microsecond

// A function is a registered function with its limits and counters. Only the counters
// change.
type function struct {
	*dispatch.Function
	id          uint32
	name        string
	description []byte
	check       uint32 // the check of the description
	raw         func(ctx context.Context, data []byte) ([]byte, error)
	forward     forward.Func // nil, or what passes calls on in place of everything else
	maxRunTime  time.Duration
	// argumentBytesMax bounds the arguments' bytes as they come, of which the function makes up
	// to runBytesPerByte each while it runs; 0 means neither.
	argumentBytesMax int
	slots            chan struct{} // nil, or a place for each call that may run
	mayInline        bool          // the registration allows the reader to run it

	// identities are the names that may call the function, nil: anybody.
	identities patterns
	// elsewhere says where the function can be called directly, nil: nowhere.
	elsewhere func(peer intercept.Peer) (address string, valid time.Duration)

	// interceptors are those of the server, the group and the function, in this order.
	interceptors []intercept.Interceptor
	// keepsBytes is set if arguments may hold bytes that the function may keep, so that it
	// pays to give it a large payload for good.
	keepsBytes bool
	// borrows is set if bytes of arguments are valid only until the function returns.
	borrows bool
	// needsContext is set if the function takes one, or an interceptor may ask for it.
	needsContext bool

	calls     atomic.Uint64
	provenAt  atomic.Uint64 // after how many calls it counts as quick
	failures  atomic.Uint64
	timed     atomic.Uint64 // calls that were timed
	runTimeNs atomic.Uint64 // the run time of these calls
	averageNs atomic.Int64
	slowFor   atomic.Int64 // how many more calls run apart
	expected  atomic.Int64 // expected bytes of the next result, 0 if the last ones were small
}

// inline reports whether the reader should run the function itself.
func (f *function) inline() bool {
	return f.mayInline && f.averageNs.Load() < int64(inlineRunTimeMax)
}

// watchTick returns how closely to watch the reader while it runs the function.
func (f *function) watchTick() time.Duration {
	if f.calls.Load() < f.provenAt.Load() {
		return watchTickNew
	}
	return watchTickProven
}

// instant reports whether the function has proved to take less time than a few dozen
// readings of the clock.
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

// ran counts a call that was timed. The average is a moving one over about eight calls.
// If two updates collide one of them is lost, which does no harm.
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

// remember makes a function that took so long run apart for a number of calls. It is
// then watched closely for as many calls again.
func (f *function) remember(runTime time.Duration) {
	calls := min(int64(runTime/slowTimePerCall), slowCallsMax)
	f.slowFor.Store(max(f.slowFor.Load(), calls))
	f.provenAt.Store(f.calls.Load() + 2*uint64(f.slowFor.Load()))
}

// runTimeTotalNs returns an estimate of how long all calls ran, from those that were
// timed.
func (f *function) runTimeTotalNs() uint64 {
	timed := f.timed.Load()
	if timed == 0 {
		return 0
	}
	return uint64(float64(f.runTimeNs.Load()) * float64(f.calls.Load()) / float64(timed))
}

// blocked notes that a call has held up the reader, so that the next ones run apart.
func (f *function) blocked() {
	f.averageNs.Store(max(f.averageNs.Load(), 8*int64(inlineRunTimeMax)))
	f.remember(slowRunTimeMin)
}
