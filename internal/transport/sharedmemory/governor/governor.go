// Package governor decides how a side of a connection waits for frames in shared
// memory: whether it looks at its ring or sleeps, and for how long it looks.
//
// It makes no system calls and reads no clock: whoever waits tells it what
// happened and when, and asks. All of it is integer arithmetic, so that
// libnearcall/src/memory/governor.c decides alike step for step; testdata/traces.txt
// holds both to that.
//
// The rule is that of renting skis (Karlin, Manasse, McGeoch, Owicki: Competitive
// randomized algorithms for nonuniform problems, 1994): a side that spins for as long
// as a sleep costs, and then sleeps, never pays more than twice what the best choice
// would have cost in hindsight. What a sleep costs is measured, all the time. Times are nanoseconds of a
// monotonic clock.
package governor

import (
	"math"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Reason says why a side waits as it does.
type Reason uint8

// The reasons.
const (
	Hot          Reason = iota // it spins
	InVain                     // spinning did not pay when it was tried last
	Crowded                    // others want the CPU, and have their turn
	OneProcessor               // the side that is waited for could not run meanwhile
)

const (
	microsecond = uint64(1000)
	millisecond = 1000 * microsecond

	// limitMinNs: below it a spin would often end just before the reply of a peer
	// that had to be woken; limitMaxNs is for how long it lasts at most, whatever a
	// sleep costs.
	limitMinNs = 20 * microsecond
	limitMaxNs = wire.SpinUsMax * microsecond

	// A side that is hot looks at the machine after lookMinNs, then after twice as
	// long, and so on, and up to lookMinNs later, not to keep in step with others.
	lookMinNs = millisecond
	lookMaxNs = 5 * millisecond
	// While more wants to run than there are CPUs, the time spent hot is a debt, which
	// is paid off payFactor times as fast while not. debtMaxNs is more than what comes
	// and goes ever makes of it: real-time threads, and those of the runtime.
	debtMaxNs = 25 * millisecond
	payFactor = 2
	// It counts as well when a side waited for a CPU itself for one waitedShare-th of
	// the time.
	waitedShare = 3
	// After that others have restFactor times what this side had, so that who lost a
	// CPU to it lost a tenth of it; where there are more of them, each has a turn.
	restFactor = 7
	turnsLeast = 2
	restMaxNs  = 1024 * millisecond
	// A side that rests looks at the machine this often, and goes on when so many looks found
	// nobody: what wanted the CPUs was a burst, and it is over. A neighbour that always wants
	// a CPU is always found; others keep what they leave. Looks that found somebody do not
	// count against those, for they find who answers, and threads of the runtimes, as well.
	restLookNs = millisecond
	absentMax  = 2

	// A probe in vain costs regretMax sleeps; so many times that lie between the
	// first two.
	distanceFactor = 10
	distanceMinNs  = millisecond / 2
	distanceMidNs  = 8 * millisecond
	distanceMaxNs  = 128 * millisecond

	outlier    = 4  // a measure counts for as many times the mean at most, and for limitMaxNs
	meanWeight = 8  // of the mean against a measure
	regretMax  = 3  // in sleeps: then spinning has not paid
	creditMax  = 24 // in sleeps: what good times count for
	provenAt   = 4  // in sleeps of credit: then a probe was right

	// A probe waits for longer at first: the side that is woken may have to change CPUs.
	probeLimitNs  = 100 * microsecond
	probeRegretNs = 300 * microsecond

	// A move to another CPU takes some 20 us. So much time goes by for each, and so
	// much of it may be saved for several at once.
	moveNs      = millisecond
	movesKeptNs = 4 * millisecond

	// One that takes turns with its peer on one CPU moves after so many turns; where
	// that does not help, because all CPUs are busy, after ever more. So many hits
	// without a turn between them show that it did.
	turnsMin  = 16
	turnsMax  = 8192
	apartHits = 64
)

// Never is a time that does not come.
const Never = uint64(math.MaxInt64)

// Facts are what the machine tells a side that asks. Zeros are not known; CPUs are
// counted from 1.
type Facts struct {
	Processors uint64 // that this side may use
	CPU        uint64 // where it runs
	PeerCPU    uint64 // where its peer ran last
	PeerAwake  uint64 // 1 if its peer looks at its ring
	Machine    uint64 // CPUs of the machine
	Runnable   uint64 // threads of the machine that run or want to
	Thread     uint64 // which WaitedNs is of
	WaitedNs   uint64 // for how long it wanted to run and did not, so far
}

// apart reports whether both sides are known to run on different CPUs.
func (f *Facts) apart() bool { return f.CPU != 0 && f.PeerCPU != 0 && f.CPU != f.PeerCPU }

// others is how many threads of others run or want to.
func (f *Facts) others() uint64 { return f.Runnable - min(1+f.PeerAwake, f.Runnable) }

// counted reports whether it is known how much wants to run.
func (f *Facts) counted() bool { return f.Machine != 0 && f.Runnable != 0 }

// full reports whether others alone use all CPUs.
func (f *Facts) full() bool { return f.counted() && f.others() >= f.Machine }

// robs reports whether somebody who had a CPU would lose some of it if both sides
// spun. Where others are more than CPUs they share them anyway.
func (f *Facts) robs() bool { return f.wanted() && f.others() <= f.Machine }

// wanted reports whether there would be more to run than CPUs if both sides did.
func (f *Facts) wanted() bool { return f.counted() && f.others()+2 > f.Machine }

// restFactor is how often as long as this side others have their turn.
func (f *Facts) restFactor() uint64 {
	if f.robs() {
		return restFactor
	}
	return max(f.others(), turnsLeast)
}

// A Governor is one side's. Used by whoever waits.
type Governor struct {
	spins  bool
	dueNs  uint64 // when Look is wanted
	hits   uint64 // waits that ended at the first glance, since regretNs was reckoned
	reason Reason
	begins bool // a caller: it tries again by itself

	sleepNs    uint64 // moving mean of what sleeping costs
	regretNs   int64  // what spinning cost more than sleeping would have
	distanceNs uint64 // from the next probe in vain to the one after it
	full       bool   // others alone used all CPUs when it looked last
	wanted     bool   // others would have lost something
	probing    bool   // no spin of this probe has ended with a frame yet

	thread      uint64
	waitedNs    uint64
	lookedNs    uint64
	lookNs      uint64 // from the last look to the next
	debtNs      uint64
	hotSinceNs  uint64
	unweighedNs uint64
	hotNs       uint64 // since the debt began
	restEndNs   uint64
	absent      uint64 // looks of a rest that found nobody
	waited      bool   // some of the debt is for what a side waited, of which no look tells the end

	moveDueNs uint64
	turns     uint64 // in a row
	turnsNext uint64 // before the next move
}

// NewCaller returns the governor of a caller for whom a sleep costs about so much.
// It spins, or tries to now and then.
func NewCaller(sleepNs uint64) *Governor {
	g := NewServer(sleepNs)
	g.begins = true
	return g
}

// NewServer returns the governor of a server's end. It spins as long as that pays,
// and again when it would have.
func NewServer(sleepNs uint64) *Governor {
	g := &Governor{spins: true, turnsNext: turnsMin}
	g.sleepNs = min(max(sleepNs, microsecond), limitMaxNs)
	g.distanceNs = g.distanceFirst()
	return g
}

// Spins reports whether a wait that begins now spins.
func (g *Governor) Spins() bool { return g.spins }

// Due reports whether Look is wanted before a wait begins.
func (g *Governor) Due(nowNs uint64) bool { return nowNs >= g.dueNs }

// Reason says why this side does what it does.
func (g *Governor) Reason() Reason { return g.reason }

// LimitNs is how long a spin lasts at most. Where others use all CPUs a sleep takes
// long because they have their turn, not because of what it costs, and who is waited
// for may be one of them.
func (g *Governor) LimitNs() uint64 {
	if g.full {
		return limitMinNs
	}
	if g.probing {
		return min(max(g.sleepNs, probeLimitNs), limitMaxNs)
	}
	return min(max(g.sleepNs, limitMinNs), limitMaxNs)
}

// Yields reports whether a spinner that looked in vain lets others of its CPU run, of
// which its peer may be one. Where they are strangers that costs a slice, milliseconds,
// so that only a probe does it then.
func (g *Governor) Yields() bool { return !g.wanted || g.probing }

// Look decides again, knowing the machine.
func (g *Governor) Look(nowNs uint64, f *Facts) {
	if g.begins {
		g.weigh(nowNs, f)
	}
	g.full, g.wanted = f.full(), f.wanted()
	g.thread, g.waitedNs, g.lookedNs = f.Thread, f.WaitedNs, nowNs
	switch {
	case f.Processors < 2 && !f.apart():
		g.stop(OneProcessor, nowNs+distanceMidNs)
		return
	case g.rests(nowNs):
		g.dueNs = min(nowNs+restLookNs, g.restEndNs)
		return
	case g.debtNs > debtMaxNs:
		g.restEndNs = nowNs + min(f.restFactor()*g.hotNs, restMaxNs)
		g.stop(Crowded, min(nowNs+restLookNs, g.restEndNs))
		g.debtNs, g.hotNs, g.absent = debtMaxNs/2, 0, 0
		return
	case g.spins:
		g.lookNs = max(lookMinNs, min(2*g.lookNs, lookMaxNs))
		g.dueNs = nowNs + g.lookNs + nowNs%lookMinNs
		return
	}
	g.spins, g.probing, g.reason, g.regretNs, g.hits = true, true, Hot, 0, 0
	g.lookNs = lookMinNs
	g.dueNs = nowNs + lookMinNs
}

// rests reports whether a rest goes on.
func (g *Governor) rests(nowNs uint64) bool {
	if g.spins || g.reason != Crowded || nowNs >= g.restEndNs {
		return false
	}
	if !g.wanted && !g.waited {
		g.absent++
	}
	return g.absent < absentMax
}

// weigh reckons the time spent hot since the last look.
func (g *Governor) weigh(nowNs uint64, f *Facts) {
	g.rest(nowNs)
	hot := min(g.unweighedNs, lookMaxNs)
	g.unweighedNs = 0
	switch {
	case f.wanted() && g.wanted:
		g.debtNs += hot
	case f.wanted():
	case g.waits(nowNs, f):
		g.debtNs += hot
		g.waited = g.waited || hot > 0
	default:
		g.debtNs -= min(payFactor*hot, g.debtNs)
	}
	g.hotNs = min(g.hotNs+hot, 2*debtMaxNs)
	if g.debtNs == 0 {
		g.hotNs, g.waited = 0, false
	}
}

// waits reports whether others want the few of the machine's CPUs that this side may
// use.
func (g *Governor) waits(nowNs uint64, f *Facts) bool {
	return f.Processors < f.Machine && f.Thread == g.thread && f.WaitedNs > g.waitedNs && f.WaitedNs-g.waitedNs > (nowNs-g.lookedNs)/waitedShare
}

// rest: if this side was hot it is to be weighed until now, which may be a little older than
// what was said last.
func (g *Governor) rest(nowNs uint64) {
	if g.spins && g.hotSinceNs != 0 {
		g.unweighedNs += max(nowNs, g.hotSinceNs) - g.hotSinceNs
	}
	g.hotSinceNs = nowNs
}

// Hit: a spin ended at the first glance.
func (g *Governor) Hit() { g.hits++ }

// HitLate: a spin of so long ended with a frame.
func (g *Governor) HitLate(spunNs, nowNs uint64) {
	g.regret(int64(spunNs)-int64(g.sleepNs), nowNs)
	g.probing = false
}

// Missed: a spin of so long ended in vain.
func (g *Governor) Missed(spunNs, nowNs uint64) { g.regret(int64(spunNs), nowNs) }

// Slept: a wait cost so much because this side slept. The peer has a say in that, so that
// it counts for no more than a spin may last.
func (g *Governor) Slept(costNs uint64) {
	costNs = min(costNs, outlier*g.sleepNs, limitMaxNs)
	g.sleepNs = max(g.sleepNs-g.sleepNs/meanWeight+costNs/meanWeight, microsecond)
}

// Paused: this side slept while its peer was awake, and a spin of so long would have
// ended with a frame. A server learns from that when spinning pays again.
func (g *Governor) Paused(pauseNs uint64) {
	if g.begins || g.spins || g.reason != InVain {
		return
	}
	if pauseNs > g.LimitNs() {
		g.regretNs = g.worst()
		return
	}
	g.regretNs += int64(pauseNs) - int64(g.sleepNs)
	if 2*g.regretNs <= int64((2*regretMax-1)*g.sleepNs) {
		g.dueNs = 0
	}
}

// Together: both sides were found on one CPU. It reports whether to move to another; if
// not, it is best to sleep at once.
func (g *Governor) Together(nowNs uint64) (moves bool) {
	if nowNs < g.moveDueNs {
		return false
	}
	g.moveDueNs = max(g.moveDueNs, nowNs-min(nowNs, movesKeptNs)) + moveNs
	return true
}

// TookTurn: the frame was there when the spinner had given its CPU away, and its peer
// runs on that. It reports whether to move to another.
func (g *Governor) TookTurn(nowNs uint64) (moves bool) {
	if g.hits >= apartHits {
		g.turns, g.turnsNext = 0, turnsMin
	}
	g.HitLate(0, nowNs)
	if g.turns++; !g.begins || g.turns < g.turnsNext {
		return false
	}
	g.turns, g.turnsNext = 0, min(2*g.turnsNext, turnsMax)
	return true
}

func (g *Governor) worst() int64 { return int64(regretMax * g.sleepNs) }

func (g *Governor) distanceFirst() uint64 {
	return min(max(distanceFactor*g.sleepNs, distanceMinNs), distanceMidNs)
}

func (g *Governor) regret(costNs int64, nowNs uint64) {
	gain := int64(min(g.hits, creditMax+regretMax) * g.sleepNs)
	if g.hits > 0 {
		g.hits, g.probing = 0, false
	}
	if g.regretNs -= gain; g.regretNs <= -int64(provenAt*g.sleepNs) {
		g.distanceNs = g.distanceFirst()
	}
	g.regretNs = max(g.regretNs+costNs, -int64(creditMax*g.sleepNs))
	worst := g.worst()
	if g.probing {
		worst += int64(probeRegretNs)
	}
	if g.regretNs <= worst {
		return
	}
	due := Never
	if g.begins {
		due = nowNs + g.distanceNs
		g.distanceNs = min(2*g.distanceNs, distanceMaxNs)
	}
	g.rest(nowNs)
	g.stop(InVain, due)
}

func (g *Governor) stop(reason Reason, dueNs uint64) {
	g.spins, g.reason, g.dueNs, g.regretNs, g.hits = false, reason, dueNs, g.worst(), 0
}
