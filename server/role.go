package server

import (
	"sync/atomic"
	"time"
)

// watchTick is how long the reader may run one function before another
// goroutine takes the reading over; it happens after one to two ticks.
const watchTick = time.Millisecond

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
	armed   atomic.Bool
	stopped atomic.Bool
	timer   atomic.Pointer[time.Timer]
	watch   func()
	seen    uint64 // used by the watch alone
}

func (r *role) init(watch func()) { r.watch = watch }

// begin is called by the reader before it runs a function.
func (r *role) begin() (mark uint64) {
	mark = r.word.Load() + 1
	r.word.Store(mark)
	if !r.armed.Load() && r.armed.CompareAndSwap(false, true) {
		r.arm()
	}
	return mark
}

// end is called when the function returned; it reports whether the caller is
// still the reader.
func (r *role) end(mark uint64) bool { return r.word.CompareAndSwap(mark, mark+1) }

// take takes the role from a reader that runs a function; it reports whether it
// was in time.
func (r *role) take(mark uint64) bool { return r.word.CompareAndSwap(mark, mark+1) }

// overdue is called by the watch: it returns the mark of a function that has
// run since the last tick. It arms the next tick if there is need for one.
func (r *role) overdue() (mark uint64, found bool) {
	mark = r.word.Load()
	if mark%2 == 1 {
		found = mark == r.seen
		r.seen = mark
		r.arm()
		return mark, found
	}
	r.armed.Store(false)
	if r.word.Load()%2 == 1 && r.armed.CompareAndSwap(false, true) {
		r.arm()
	}
	return 0, false
}

func (r *role) arm() {
	if r.stopped.Load() {
		return
	}
	if timer := r.timer.Load(); timer != nil {
		timer.Reset(watchTick)
		return
	}
	r.timer.Store(time.AfterFunc(watchTick, r.watch))
}

// stop lets the watch run out.
func (r *role) stop() {
	r.stopped.Store(true)
	if timer := r.timer.Load(); timer != nil {
		timer.Stop()
	}
}
