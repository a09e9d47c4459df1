package sharedmemory

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// A spinner that finds this much time gone between two looks at the clock
	// was put off its CPU: somebody else wants it.
	displacedNs = uint64(100 * time.Microsecond)
	// After that nobody spins for a while, longer each time that it happens
	// soon again.
	restMinNs = uint64(time.Millisecond)
	restMaxNs = uint64(512 * time.Millisecond)
	// A rest is forgotten after this many of its lengths without trouble.
	restForgotten = 8
	// How often the number of CPUs is asked for again: it follows quotas.
	processorsAgeNs = uint64(100 * time.Millisecond)
)

// A ration is how many goroutines may spin at a time: one less than there are
// CPUs, so that whoever they wait for can run, and none for a while after one was
// displaced. The CPUs belong to the process, so there is one ration in it. Times
// are of monotonic clocks that agree.
type ration struct {
	spinners    atomic.Int32
	processors  atomic.Int32
	countedNs   atomic.Uint64
	restUntilNs atomic.Uint64
	restNs      atomic.Uint64
}

// processRation is the one ration. It is the only state of this package that
// connections share.
var processRation ration

// acquire takes a place among the spinners.
func (r *ration) acquire(nowNs uint64) bool {
	if nowNs < r.restUntilNs.Load() {
		return false
	}
	if nowNs-r.countedNs.Load() > processorsAgeNs {
		r.countedNs.Store(nowNs)
		r.processors.Store(int32(min(runtime.GOMAXPROCS(0), runtime.NumCPU())))
	}
	if r.spinners.Add(1) < r.processors.Load() {
		return true
	}
	r.spinners.Add(-1)
	return false
}

// resting reports whether nobody spins for now, or never on one CPU.
func (r *ration) resting(nowNs uint64) bool {
	return nowNs < r.restUntilNs.Load() || r.processors.Load() == 1
}

func (r *ration) release() { r.spinners.Add(-1) }

// displaced lets everybody rest. Where several spin, others may have been
// displaced by the same, and everybody rests already.
func (r *ration) displaced(nowNs uint64) {
	until, last := r.restUntilNs.Load(), r.restNs.Load()
	if nowNs < until {
		return
	}
	rest := restMinNs
	if nowNs-until < restForgotten*last {
		rest = min(2*last, restMaxNs)
	}
	r.restNs.Store(rest)
	r.restUntilNs.Store(nowNs + rest)
}
