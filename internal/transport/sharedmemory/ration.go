package sharedmemory

import (
	"runtime"
	"sync/atomic"
	"time"
)

// processorsAgeNs is how often the number of CPUs is asked for again: it follows
// quotas.
const processorsAgeNs = int64(100 * time.Millisecond)

// A ration is how many goroutines may spin at a time: one less than there are
// CPUs, so that whoever they wait for can run. On one CPU there is a place for who
// knows that its peer has another. The CPUs belong to the process, so there is one
// ration in it. Times are of monotonic clocks that agree.
type ration struct {
	spinners  atomic.Int32
	cpus      atomic.Int32
	machine   atomic.Uint64 // CPUs of the machine
	countedNs atomic.Uint64
	servers   atomic.Int32 // ends of servers that are open
	callers   atomic.Int32 // ends of callers
}

// processRation is the one ration. It is the only state of this package that
// connections share.
var processRation ration

// acquire takes a place among the spinners.
func (r *ration) acquire(nowNs uint64) bool {
	if r.spinners.Add(1) < max(r.processors(nowNs), 2) {
		return true
	}
	r.spinners.Add(-1)
	return false
}

// single reports whether no other end of the process can be held up by one that spins: a
// server's by servers', a caller's by any.
func (r *ration) single(caller bool) bool {
	if caller {
		return r.callers.Load() == 1 && r.servers.Load() == 0
	}
	return r.servers.Load() == 1
}

func (r *ration) release() { r.spinners.Add(-1) }

// processors is how many CPUs the process may use; it also finds out how many the
// machine has.
func (r *ration) processors(nowNs uint64) int32 {
	// Others may have counted later than that.
	if int64(nowNs-r.countedNs.Load()) > processorsAgeNs {
		r.countedNs.Store(nowNs)
		r.cpus.Store(int32(min(runtime.GOMAXPROCS(0), runtime.NumCPU())))
		r.machine.Store(machineCPUs())
	}
	return r.cpus.Load()
}
