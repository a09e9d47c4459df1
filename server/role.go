package server

import (
	"sync/atomic"
	"time"
)

// How long the reader may run one function before another goroutine takes the
// reading over; it happens after one to two ticks. A timer that runs out wakes a
// thread, which costs as much as a call or two: functions that have proved to
// be quick are therefore watched less closely.
const (
	watchTickNew    = time.Millisecond
	watchTickProven = 16 * time.Millisecond
)

// A role says who reads the connection. The reader runs quick functions
// itself, because handing every call to another goroutine would cost more than
// the call. When such a function turns out to be slow, the watch takes the role
// away and gives it to a new goroutine; the old one finishes its call and ends.
//
// word counts up; it is odd while the reader runs a function. Leaving that
// state is one compare-and-swap that either the reader or the watch wins.
//
// The watch is one timer a connection that is armed when a function starts and
// lets itself run out when nothing ran for a tick, so that busy connections pay
// for it once a tick and idle ones never.
type role struct {
	word    atomic.Uint64
	armed   atomic.Int64 // the tick that the timer is armed with, 0: none
	stopped atomic.Bool
	timer   atomic.Pointer[time.Timer]
	watch   func()
	seen    atomic.Uint64 // used by the watch, which may overlap with itself
}

func (r *role) init(watch func()) { r.watch = watch }

// begin is called by the reader before it runs a function.
func (r *role) begin(tick time.Duration) (mark uint64) {
	mark = r.word.Load() + 1
	r.word.Store(mark)
	if armed := r.armed.Load(); armed == 0 || armed > int64(tick) {
		r.arm(tick)
	}
	return mark
}

// end is called when the function returned; it reports whether the caller is
// still the reader.
func (r *role) end(mark uint64) bool { return r.word.CompareAndSwap(mark, mark+1) }

// take takes the role from a reader that runs a function; it reports whether it
// was in time.
func (r *role) take(mark uint64) bool { return r.word.CompareAndSwap(mark, mark+1) }

// interrupt takes the role from whoever runs a function, so that nobody reads
// any more; it reports whether one did.
func (r *role) interrupt() bool {
	mark := r.word.Load()
	return mark%2 == 1 && r.take(mark)
}

// overdue is called by the watch: it returns the mark of a function that has
// run since the last tick. It arms the next tick if there is need for one.
func (r *role) overdue() (mark uint64, found bool) {
	mark = r.word.Load()
	if mark%2 == 1 {
		found = r.seen.Swap(mark) == mark
		r.arm(watchTickNew)
		return mark, found
	}
	r.armed.Store(0)
	// A function that began meanwhile may have seen the timer armed.
	if r.word.Load()%2 == 1 {
		r.arm(watchTickNew)
	}
	return 0, false
}

func (r *role) arm(tick time.Duration) {
	if r.stopped.Load() {
		return
	}
	r.armed.Store(int64(tick))
	if timer := r.timer.Load(); timer != nil {
		timer.Reset(tick)
		return
	}
	r.timer.Store(time.AfterFunc(tick, r.watch))
}

// stop lets the watch run out.
func (r *role) stop() {
	r.stopped.Store(true)
	if timer := r.timer.Load(); timer != nil {
		timer.Stop()
	}
}
