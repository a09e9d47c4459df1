package sharedmemory

import (
	"runtime"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory/governor"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/spin"
)

const (
	// looksAtOnce is how many times a spinner looks at its ring before it looks at the
	// clock again, which takes about a microsecond.
	looksAtOnce  = 32
	socketLookNs = uint64(wire.SocketLookUs) * uint64(time.Microsecond)
	// takenAwayNs is the gap between two looks at the clock from which on the CPU is
	// taken to have been away.
	takenAwayNs = uint64(50 * time.Microsecond)
	// loneNs is how long a side in a process with one CPU goes on without a sleep.
	// During a sleep the runtime looks after everything else.
	loneNs = uint64(2 * time.Millisecond)
)

// What a side does next.
type Next uint8

// These are the results of Await.
const (
	// TakeFrames means that there are frames.
	TakeFrames Next = iota
	// LookAtSocket means to look at the socket without waiting, because that was not
	// done for long.
	LookAtSocket
	// Sleep means to wait for the socket.
	Sleep
)

// A Waiter waits for frames as its governor decides, with or without spinning before it
// sleeps. The goroutine that takes frames from the End uses it.
type Waiter struct {
	end      *End
	clock    monotonic.Clock
	mode     spin.Mode
	governor *governor.Governor
	begins   bool // a caller

	goroutines goroutines // of a caller's process

	sleeps    *Sleeps
	cause     cause // of the sleep to come
	spins     bool  // holds a place of the ration
	lone      bool  // its process has one CPU
	slept     bool
	together  bool // both sides were on one CPU when this one woke
	peerWas   bool // whether the peer was awake when this side fell asleep
	sinceNs   uint64
	cpu       uint64 // where this side was last, from 1
	idleNs    uint64 // since when there has been nothing to do
	arrivedNs uint64 // when the last sleep was over
	lookedNs  uint64 // when the socket was looked at last
	readNs    uint64 // what the clock said to a spinner last
}

// NewCallerWaiter returns the waiter of a caller, which must be closed. Spinning for a
// peer that sleeps is of no use: it has to be woken first, and may be woken on the
// spinner's own CPU. But one side has to begin, and that is the caller: now and then it
// tries whether the server stays awake if it stays awake itself. limit is what a sleep
// costs, and sleeps counts the sleeps of this side.
func NewCallerWaiter(end *End, clock monotonic.Clock, mode spin.Mode, limit time.Duration, sleeps *Sleeps) *Waiter {
	processRation.callers.Add(1)
	return &Waiter{end: end, clock: clock, mode: mode, governor: governor.NewCaller(uint64(limit)), begins: true, sleeps: sleeps}
}

// NewWaiter returns the waiter of a server's end, which must be closed. limit is what a
// sleep costs, and sleeps counts the sleeps of this side.
func NewWaiter(end *End, clock monotonic.Clock, mode spin.Mode, limit time.Duration, sleeps *Sleeps) *Waiter {
	processRation.servers.Add(1)
	return &Waiter{end: end, clock: clock, mode: mode, governor: governor.NewServer(uint64(limit)), sleeps: sleeps}
}

// Await waits for frames without sleeping if that pays. arrivedNs is when the handling
// of the last frame began, and idleNs when it was over; both may be older. stop is
// called now and then, and ends the wait.
func (w *Waiter) Await(arrivedNs, idleNs uint64, stop func() bool) Next {
	if w.slept {
		w.learn(arrivedNs)
	}
	if idleNs-w.lookedNs > socketLookNs {
		return w.lookAtSocket(idleNs)
	}
	if w.end.Ready() {
		w.hit()
		return TakeFrames
	}
	if w.maySpin(idleNs) {
		w.end.Awake()
		return w.spin(stop)
	}
	w.idleNs = w.clock.Ns()
	w.stopSpinning()
	return Sleep
}

// Prepare is called by a caller that is about to send and will wait for the reply. If
// it is going to spin it looks at its ring from now on, so that the reply comes there.
// If not, it stays asleep; otherwise the server would spin for it.
func (w *Waiter) Prepare(nowNs uint64) {
	if w.mode == spin.Dedicated || w.mode == spin.Auto && (w.governor.Spins() || w.governor.Due(nowNs)) {
		w.end.Awake()
	}
}

// Leave is called by a caller that has its reply. If it spins it goes on saying that it
// looks at its ring, although nobody does until its next call; the server decides
// meanwhile whether to wait for that. Leave reports false if there is a frame to take.
func (w *Waiter) Leave() bool {
	w.stopSpinning()
	if w.mode == spin.Dedicated || w.mode == spin.Auto && w.governor.Spins() {
		return !w.end.Ready()
	}
	return w.end.FallAsleep()
}

// ReadNs returns when a spinner last read the clock. That is about now if Await has
// just waited for longer than a glance at the ring.
func (w *Waiter) ReadNs() uint64 { return w.readNs }

// learn tells the governor about a sleep that is over. The cost that the peer's word
// suggests cannot be more than the whole sleep.
func (w *Waiter) learn(arrivedNs uint64) {
	w.slept, w.sinceNs = false, 0
	w.lookedNs, w.arrivedNs = arrivedNs, arrivedNs
	if w.begins && arrivedNs > w.idleNs {
		w.sleeps.asleepNs.Add(arrivedNs - w.idleNs)
	}
	soon := true
	if sentNs := w.end.peerSent.Load(); sentNs >= w.idleNs && sentNs <= arrivedNs {
		w.governor.Slept(2 * (arrivedNs - sentNs))
		if w.peerWas {
			w.governor.Paused(sentNs - w.idleNs)
		}
		soon = sentNs-w.idleNs <= w.governor.LimitNs()
	}
	w.together = !w.begins && w.sharesCPU(arrivedNs, soon)
}

// sharesCPU reports whether both sides are on one CPU and stay there. If requests come
// too seldom to spin for, moving costs more than it gains.
func (w *Waiter) sharesCPU(nowNs uint64, moves bool) bool {
	if w.mode != spin.Auto || w.end.PeerSleeps() || w.cpu == 0 || w.end.peerCPU.Load() != w.cpu {
		return false
	}
	if !moves || runtime.NumCPU() < 2 || !w.governor.Together(nowNs) {
		return true
	}
	w.move()
	return false
}

// move goes to another CPU. Meanwhile it publishes none, because otherwise both sides
// might move to the same one.
func (w *Waiter) move() {
	w.end.cpu.Store(0)
	w.cpu = 0
	moveAway()
	w.publishCPU()
}

// publishCPU says where this side runs.
func (w *Waiter) publishCPU() {
	if cpu := currentCPU(); cpu != w.cpu {
		w.cpu = cpu
		w.end.cpu.Store(cpu)
	}
}

func (w *Waiter) lookAtSocket(nowNs uint64) Next {
	w.lookedNs = nowNs
	if w.mode == spin.Auto {
		w.publishCPU()
	}
	return LookAtSocket
}

func (w *Waiter) hit() {
	w.sinceNs = 0
	w.governor.Hit()
}

func (w *Waiter) maySpin(nowNs uint64) bool {
	switch w.mode {
	case spin.Off:
		w.cause = spinOff
		return false
	case spin.Dedicated:
		return true
	}
	if w.governor.Due(nowNs) {
		w.look()
	}
	if !w.governor.Spins() || w.together || w.lone && nowNs-w.arrivedNs > loneNs || !w.begins && w.end.PeerSleeps() {
		w.cause = w.whyNot()
		return false
	}
	if !w.spins {
		w.spins = processRation.acquire(nowNs)
		w.cause = noPlace
	}
	return w.spins
}

// whyNot returns why this side does not spin although it was not told not to.
func (w *Waiter) whyNot() cause {
	switch {
	case !w.begins && w.end.PeerSleeps():
		return peerAsleep
	case w.governor.Spins() && w.together:
		return sharedProcessor
	case w.governor.Spins():
		return processTurn
	case w.governor.Reason() == governor.OneProcessor:
		return oneProcessor
	case w.governor.Reason() == governor.Crowded:
		return crowded
	}
	return inVain
}

// look tells the governor about the machine. If the process has one CPU, a side looks
// at its ring only while it is the only one there; otherwise it would keep the others
// from taking their frames.
func (w *Waiter) look() {
	nowNs := w.clock.Ns()
	w.publishCPU()
	facts := governor.Facts{Processors: uint64(processRation.processors(nowNs)), CPU: w.cpu}
	w.lone = facts.Processors < 2
	if !w.lone || processRation.single(w.begins) {
		facts.PeerCPU = w.end.peerCPU.Load()
	}
	if !w.end.PeerSleeps() {
		facts.PeerAwake = 1
	}
	facts.Machine, facts.Runnable = processRation.machine.Load(), countRunnable()
	if w.begins {
		facts.Thread, facts.WaitedNs = threadWaited()
	}
	if w.lone && w.begins {
		w.addGoroutines(&facts)
	}
	w.governor.Look(nowNs, &facts)
}

// addGoroutines is for a caller, whose process may do anything: if it has only one CPU,
// goroutines that want to run compete for it, however many CPUs the machine has.
func (w *Waiter) addGoroutines(facts *governor.Facts) {
	if n := w.goroutines.runnable(); n > 0 {
		facts.Machine, facts.Runnable = 2, 1+facts.PeerAwake+n
	}
}

// giveWay lets a thread run that was woken on this CPU, and reports whether to go on
// spinning.
func (w *Waiter) giveWay() bool {
	if w.governor.Yields() {
		yield()
	}
	if w.mode == spin.Auto {
		w.publishCPU()
	}
	nowNs := w.clock.Ns()
	w.idleNs, w.readNs, w.sinceNs = nowNs, nowNs, nowNs
	if !w.end.Ready() {
		return !w.sharesCPU(nowNs, true)
	}
	if w.mode == spin.Auto && w.cpu != 0 && w.end.peerCPU.Load() == w.cpu && w.governor.TookTurn(nowNs) {
		w.move()
	}
	return true
}

// spin looks at the ring. If the ring is hot a frame comes before the clock is read at
// all: the time that the caller knows may be too old to show a gap.
func (w *Waiter) spin(stop func() bool) Next {
	if w.sinceNs == 0 {
		if w.end.Look(looksAtOnce) {
			w.governor.Hit()
			return TakeFrames
		}
		if !w.giveWay() {
			w.stopSpinning()
			w.cause = sharedProcessor
			return Sleep
		}
	}
	w.cause = nothingCame
	for nowNs := w.readNs; ; {
		if w.end.Look(looksAtOnce) {
			w.governor.HitLate(nowNs-w.sinceNs, nowNs)
			w.sinceNs = 0
			return TakeFrames
		}
		before := nowNs
		nowNs = w.clock.Ns()
		w.readNs = nowNs
		if nowNs-before > takenAwayNs {
			w.sinceNs += nowNs - before
		}
		switch spunNs := nowNs - w.sinceNs; {
		case stop():
			return Sleep
		case nowNs-w.lookedNs > socketLookNs:
			return w.lookAtSocket(nowNs)
		case w.mode == spin.Auto && spunNs > w.governor.LimitNs():
			w.governor.Missed(spunNs, nowNs)
			w.stopSpinning()
			return Sleep
		}
	}
}

func (w *Waiter) stopSpinning() {
	w.sinceNs = 0
	if w.spins {
		w.spins = false
		processRation.release()
	}
}

// FallAsleep says that this side waits for the socket from now on; it reports
// false when there is a frame to take instead.
func (w *Waiter) FallAsleep() bool {
	w.stopSpinning()
	w.together, w.peerWas = false, !w.end.PeerSleeps()
	if !w.end.FallAsleep() {
		return false
	}
	w.sleeps.counts[w.cause].Add(1)
	return true
}

// Awake says that this side looks at its ring again.
func (w *Waiter) Awake() {
	w.slept = true
	if w.mode == spin.Auto {
		w.publishCPU()
	}
	w.end.Awake()
}

// Rest gives back the place that the waiter has among the spinners of the process,
// until it waits again.
func (w *Waiter) Rest() { w.stopSpinning() }

// Close gives back what the waiter holds of the process. No other method may be called
// after it.
func (w *Waiter) Close() {
	w.stopSpinning()
	if w.begins {
		processRation.callers.Add(-1)
	} else {
		processRation.servers.Add(-1)
	}
}
