package server

import (
	"sync/atomic"
	"time"
)

// How long the reader may run one function before another goroutine becomes the reader,
// which happens after one to two ticks. A timer that fires wakes a thread, which costs
// as much as a call or two, so functions that have proved to be quick are watched less
// closely.
const (
	watchTickNew    = time.Millisecond
	watchTickProven = 16 * time.Millisecond
)

// A role says who reads the connection. The reader runs quick functions itself, because
// handing every call to another goroutine would cost more than the call. If such a
// function turns out to be slow, a timer, the watch, takes the role from the reader and
// gives it to a new goroutine. The old one finishes its call and ends.
//
// word counts up, and is odd while the reader runs a function. That state ends by one
// compare-and-swap, which either the reader or the watch wins.
//
// Each connection has one timer. It is armed when a function starts, and not armed
// again when nothing has run for a tick. So busy connections pay for it once a tick,
// and idle ones never. The first tick of a connection has no timer of its own: see
// watchList.
type role struct {
	word    atomic.Uint64
	armed   atomic.Int64 // the tick with which the timer is armed, 0 if it is not
	stopped atomic.Bool
	timer   atomic.Pointer[time.Timer]
	listed  atomic.Bool // was watched by first, so that the next watch has a timer
	first   *watchList
	watch   func()
	seen    atomic.Uint64 // used by the watch, whose runs may overlap
}

func (r *role) init(watch func(), first *watchList) { r.watch, r.first = watch, first }

// begin is called by the reader before it runs a function.
func (r *role) begin(tick time.Duration) (mark uint64) {
	mark = r.word.Load() + 1
	r.word.Store(mark)
	if armed := r.armed.Load(); armed == 0 || armed > int64(tick) {
		r.arm(tick)
	}
	return mark
}

// end is called when the function has returned. It reports whether its caller is still
// the reader.
func (r *role) end(mark uint64) bool { return r.word.CompareAndSwap(mark, mark+1) }

// take takes the role from a reader that runs a function. It reports whether it came in
// time.
func (r *role) take(mark uint64) bool { return r.word.CompareAndSwap(mark, mark+1) }

// interrupt takes the role from a goroutine that runs a function, so that nobody reads
// any more. It reports whether there was one.
func (r *role) interrupt() bool {
	mark := r.word.Load()
	return mark%2 == 1 && r.take(mark)
}

// overdue is called by the watch. It returns the mark of a function that has been
// running since the last tick, and arms the next tick if that is needed.
func (r *role) overdue() (mark uint64, found bool) {
	mark = r.word.Load()
	if mark%2 == 1 {
		found = r.seen.Swap(mark) == mark
		r.arm(watchTickNew)
		return mark, found
	}
	r.armed.Store(0)
	// A function that has begun meanwhile may have seen the timer armed.
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
	if !r.listed.Swap(true) {
		r.first.add(r.watch, tick)
		return
	}
	made := time.AfterFunc(tick, r.watch)
	if !r.timer.CompareAndSwap(nil, made) {
		made.Stop()
		r.timer.Load().Reset(tick)
	}
}

// stop stops the watch.
func (r *role) stop() {
	r.stopped.Store(true)
	if timer := r.timer.Load(); timer != nil {
		timer.Stop()
	}
}
