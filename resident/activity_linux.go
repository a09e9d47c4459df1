package resident

import (
	"sync"
	"time"
)

// An activity keeps account of what goes on in a resident, and notices when nothing has
// gone on for long.
type activity struct {
	idle    time.Duration // negative means without a limit
	expired func() bool   // called after idle time; returns false if something goes on after all

	mu      sync.Mutex
	busy    int    // number of connections and runs
	running int    // number of runs
	runs    uint64 // number of runs that have ended
	timer   *time.Timer
	quiet   *sync.Cond // signalled when nothing goes on
}

func newActivity(idle time.Duration, expired func() bool) *activity {
	a := &activity{idle: idle, expired: expired}
	a.quiet = sync.NewCond(&a.mu)
	return a
}

// watch begins to measure idle time.
func (a *activity) watch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle < 0 {
		return
	}
	a.timer = time.AfterFunc(a.idle, a.expire)
	if a.busy > 0 {
		a.timer.Stop()
	}
}

func (a *activity) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy == 0 && !a.expired() {
		a.timer.Reset(a.idle)
	}
}

func (a *activity) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy++; a.busy == 1 && a.timer != nil {
		a.timer.Stop()
	}
}

func (a *activity) beginRun() {
	a.begin()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running++
}

func (a *activity) endRun() {
	a.mu.Lock()
	a.running--
	a.runs++
	a.mu.Unlock()
	a.end()
}

// withdrawRun uncounts a run that its launcher gave up before it began.
func (a *activity) withdrawRun() {
	a.mu.Lock()
	a.running--
	a.mu.Unlock()
	a.end()
}

func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy--; a.busy > 0 {
		return
	}
	a.quiet.Broadcast()
	if a.timer != nil {
		a.timer.Reset(a.idle)
	}
}

// await returns when nothing goes on.
func (a *activity) await() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.busy > 0 {
		a.quiet.Wait()
	}
}

func (a *activity) counts() (running int, runs uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running, a.runs
}
