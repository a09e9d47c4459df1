package sharedmemory

import (
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
)

// looksAtOnce is how often a spinner looks at its ring between two looks at the
// clock: about a microsecond.
const looksAtOnce = 32

const socketLookNs = uint64(wire.SocketLookUs) * uint64(time.Microsecond)

// What a side does next.
type Next uint8

// The choices of Await.
const (
	// TakeFrames: there are some.
	TakeFrames Next = iota
	// LookAtSocket without waiting: it has not been looked at for long.
	LookAtSocket
	// Sleep.
	Sleep
)

// A Waiter decides how a side waits for frames: how long it spins before it
// sleeps. Spinning is worth its CPU when the frame comes within the time that a
// sleep and a wake cost. What the next pause will be is guessed from the last.
// Used by whoever takes frames from the End.
type Waiter struct {
	end     *End
	clock   monotonic.Clock
	mode    address.Spin
	limitNs uint64

	probes bool // may spin for a peer that sleeps, now and then
	probe  uint // waits for sleepers so far

	spins    bool // holds a place of the ration
	pays     bool
	slept    bool
	idleNs   uint64 // since when there has been nothing to do
	lookedNs uint64 // when the socket was looked at last
	readNs   uint64 // what the clock said to a spinner last
}

// probeDistance is how many waits for a sleeping peer go by between two that
// spin all the same.
const probeDistance = 64

// NewCallerWaiter returns the waiter of a caller. Nobody spins for a peer that
// sleeps: it has to be woken first, and may be woken on the spinner's own CPU.
// But somebody has to begin, and that is the caller: now and then it tries
// whether the server stays awake when it is awake itself.
func NewCallerWaiter(end *End, clock monotonic.Clock, mode address.Spin, limit time.Duration) *Waiter {
	w := NewWaiter(end, clock, mode, limit)
	w.probes = true
	return w
}

// NewWaiter returns the waiter of a server's end. limit is how long spinning
// pays.
func NewWaiter(end *End, clock monotonic.Clock, mode address.Spin, limit time.Duration) *Waiter {
	return &Waiter{end: end, clock: clock, mode: mode, limitNs: uint64(limit), pays: true}
}

// Await waits for frames without sleeping, if that is worth it. arrivedNs is
// when the last frame was handled first, idleNs when that was done; both may be
// older. stop is asked now and then, and ends the wait.
func (w *Waiter) Await(arrivedNs, idleNs uint64, stop func() bool) Next {
	if w.slept {
		w.slept = false
		w.lookedNs = arrivedNs
		w.pays = arrivedNs-w.idleNs < w.limitNs+w.limitNs/2
	}
	if idleNs-w.lookedNs > socketLookNs {
		w.lookedNs = idleNs
		return LookAtSocket
	}
	if w.end.Ready() {
		return TakeFrames
	}
	if w.maySpin(idleNs) {
		return w.spin(stop)
	}
	w.idleNs = w.clock.Ns()
	w.stopSpinning()
	return Sleep
}

// ReadNs is when a spinner read the clock last: about now, if Await has just
// waited for longer than a glance at the ring.
func (w *Waiter) ReadNs() uint64 { return w.readNs }

func (w *Waiter) maySpin(nowNs uint64) bool {
	switch w.mode {
	case address.SpinOff:
		return false
	case address.SpinDedicated:
		return true
	}
	peerSleeps := w.end.PeerSleeps()
	if !w.pays || peerSleeps && !w.mayProbe() {
		return false
	}
	if !w.spins {
		w.spins = processRation.acquire(nowNs)
	}
	if w.spins && peerSleeps {
		moveAway()
	}
	return w.spins
}

// mayProbe reports whether this wait is one of the few that may spin for a
// sleeper.
func (w *Waiter) mayProbe() bool {
	w.probe++
	return w.probes && w.probe%probeDistance == 0 && !processRation.resting(w.clock.Ns())
}

// spin looks at the ring. On a hot one a frame comes before the clock is read at
// all: what the caller knows of the time may be too old to tell a gap by.
func (w *Waiter) spin(stop func() bool) Next {
	if w.end.Look(looksAtOnce) {
		return TakeFrames
	}
	yield()
	nowNs := w.clock.Ns()
	until := nowNs + w.limitNs
	w.idleNs, w.readNs = nowNs, nowNs
	for {
		if w.end.Look(looksAtOnce) {
			return TakeFrames
		}
		before := nowNs
		nowNs = w.clock.Ns()
		w.readNs = nowNs
		switch {
		case stop():
			return Sleep
		case w.mode == address.SpinDedicated:
			if nowNs-w.lookedNs > socketLookNs {
				w.lookedNs = nowNs
				return LookAtSocket
			}
		case nowNs-before > displacedNs:
			processRation.displaced(nowNs)
			w.stopSpinning()
			return Sleep
		case nowNs > until:
			w.stopSpinning()
			return Sleep
		}
	}
}

func (w *Waiter) stopSpinning() {
	if w.spins {
		w.spins = false
		processRation.release()
	}
}

// FallAsleep says that this side waits for the socket from now on; it reports
// false when there is a frame to take instead.
func (w *Waiter) FallAsleep() bool {
	w.stopSpinning()
	return w.end.FallAsleep()
}

// Awake says that this side looks at its ring again.
func (w *Waiter) Awake() {
	w.slept = true
	w.end.Awake()
}

// Close gives back what the waiter holds of the process.
func (w *Waiter) Close() { w.stopSpinning() }
