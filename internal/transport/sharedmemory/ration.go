package sharedmemory

import (
	"runtime"
	"sync/atomic"
	"time"
)

// processorsAgeNs is how old the number of CPUs may be. It is looked up again because
// it follows quotas.
const processorsAgeNs = int64(100 * time.Millisecond)

// A ration bounds how many goroutines may spin at the same time: one fewer than there
// are CPUs, so that those for which they wait can run. With one CPU there is a place
// for a goroutine that knows that its peer runs on another CPU. The CPUs belong to the
// process, so it has one ration. Times are of monotonic clocks that agree.
type ration struct {
	spinners  atomic.Int32
	cpus      atomic.Int32
	machine   atomic.Uint64 // number of CPUs of the machine
	countedNs atomic.Uint64
	servers   atomic.Int32 // open ends of servers
	callers   atomic.Int32 // open ends of callers
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

// single reports whether a spinner cannot hold up any other end of this process. A
// server's end can be held up by those of servers, a caller's by any.
func (r *ration) single(caller bool) bool {
	if caller {
		return r.callers.Load() == 1 && r.servers.Load() == 0
	}
	return r.servers.Load() == 1
}

func (r *ration) release() { r.spinners.Add(-1) }

// processors returns how many CPUs the process may use. It also finds out how many the
// machine has.
func (r *ration) processors(nowNs uint64) int32 {
	// Others may have counted later than at nowNs.
	if int64(nowNs-r.countedNs.Load()) > processorsAgeNs {
		r.countedNs.Store(nowNs)
		r.cpus.Store(int32(min(runtime.GOMAXPROCS(0), runtime.NumCPU())))
		r.machine.Store(machineCPUs())
	}
	return r.cpus.Load()
}
