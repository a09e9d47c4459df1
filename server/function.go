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

// A function is a registered function with its limits and counters. Immutable
// but for the counters.
type function struct {
	*dispatch.Function
	id          uint32
	name        string
	description []byte
	raw         func(ctx context.Context, data []byte) ([]byte, error)
	maxRunTime  time.Duration
	slots       chan struct{} // nil, or one place per call that may run

	calls     atomic.Uint64
	failures  atomic.Uint64
	runTimeNs atomic.Uint64
	averageNs atomic.Int64
}

// inline reports whether the reading goroutine should run the function itself.
func (f *function) inline() bool {
	return f.averageNs.Load() < int64(inlineRunTimeMax) && f.maxRunTime == 0 && f.slots == nil
}

// watchTick returns how closely the reader is watched while it runs the
// function.
func (f *function) watchTick() time.Duration {
	if f.calls.Load() < provenCalls {
		return watchTickNew
	}
	return watchTickProven
}

// ran counts a call. The average is a moving one over about eight calls;
// updates that collide lose one of them, which does not matter.
func (f *function) ran(runTime time.Duration, failed bool) {
	f.calls.Add(1)
	f.runTimeNs.Add(uint64(runTime))
	if failed {
		f.failures.Add(1)
	}
	average := f.averageNs.Load()
	f.averageNs.Store(average + (int64(runTime)-average)/8)
}

// blocked notes that a call held the reader up, so that the next ones do not.
func (f *function) blocked() {
	f.averageNs.Store(max(f.averageNs.Load(), 8*int64(inlineRunTimeMax)))
}
