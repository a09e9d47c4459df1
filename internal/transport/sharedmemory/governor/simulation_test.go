package governor_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/governor"
)

const (
	ms   = 1_000_000
	seed = 7
)

// A scenario is a machine, those who use it, and what is wanted of them.
type scenario struct {
	name     string
	cpus     int
	callers  int
	pauseNs  uint64
	function uint64
	costs    costs
	pinned   bool // each side has one CPU
	disturb  func(w *world) *task
	want     wanted
}

// lengthNs is how long it takes to see: where nothing disturbs one caller nothing changes,
// and with several pairs that are hot at once there is little to fast-forward.
func (sc *scenario) lengthNs() uint64 {
	if sc.disturb == nil && sc.callers == 1 || sc.cpus > 2 {
		return 500 * ms
	}
	return 2000 * ms
}

// wanted are the least and most of what governed sides may come to; 0: whatever.
type wanted struct {
	ofBest      float64 // calls, of the better one of always sleeping and always spinning
	ofSleeping  float64 // calls
	steady      float64 // mean, of the best window
	least       float64 // least window, of that of the better one
	neighbour   float64 // its CPU, of what it has beside those who sleep
	fair        float64 // calls of the caller that has the fewest, of what each has who sleeps
	cpuSleeping float64 // at most so many times the CPU of those who sleep
}

var quick = costs{idleWakeNs: 8_000, sendNs: 3_000, receiveNs: 1_500, hotCallNs: 400}
var stacked = costs{idleWakeNs: 8_000, sendNs: 3_000, receiveNs: 1_500, hotCallNs: 400, stacks: true}
var fast = costs{idleWakeNs: 2_000, sendNs: 1_500, receiveNs: 1_000, hotCallNs: 400}
var slow = costs{idleWakeNs: 200_000, sendNs: 100_000, receiveNs: 50_000, hotCallNs: 400}

func (w *world) uniform(from, to uint64) uint64 { return from + w.random.Uint64N(to-from+1) }

// steal: the hypervisor takes each CPU for a share of time, mostly in small pieces.
func steal(perCent uint64) func(w *world) *task {
	return func(w *world) *task {
		for _, c := range w.cpus {
			var again func()
			again = func() {
				piece := w.uniform(50_000, 1_000_000)
				if w.random.IntN(40) == 0 {
					piece = w.uniform(1_000_000, 30_000_000)
				}
				w.freeze(c, piece, hypervisor)
				mean := uint64(910_000)
				w.after(piece+w.uniform(0, 2*mean*(100-perCent)/perCent), again)
			}
			w.after(w.uniform(0, 5_000_000), again)
		}
		return nil
	}
}

func sysmon(w *world) *task {
	var again func()
	again = func() {
		if last := w.cpus[len(w.cpus)-1]; w.nowNs >= last.frozenNs {
			w.freeze(last, 40_000, realTime)
		}
		w.after(400_000, again)
	}
	w.after(0, again)
	return nil
}

func played(w *world) *task {
	for _, c := range w.cpus {
		var again func()
		again = func() {
			piece := w.uniform(200_000, 5_000_000)
			w.freeze(c, piece, realTime)
			w.after(piece+w.uniform(0, 2*9*2_600_000), again)
		}
		w.after(w.uniform(0, 5_000_000), again)
	}
	return nil
}

// burns: a neighbour that uses what it can get.
func burns(w *world) *task {
	t := new(task)
	t.run(1<<60, func() {})
	w.place(t, w.cpus[0])
	return t
}

// bursts: somebody computes for a while, now and then, as a program that is started does.
func bursts(w *world) *task {
	const busyNs, everyNs = 80 * ms, 500 * ms
	t := new(task)
	var again func()
	again = func() {
		w.after(everyNs, func() { w.wakeUp(t, nil) })
		t.run(busyNs, func() { w.block(t, again) })
	}
	t.blocked, t.former = true, w.cpus[0]
	t.run(0, again)
	w.after(20*ms, func() { w.wakeUp(t, nil) })
	return t
}

// burnsThere is one that keeps to the caller's CPU, as a goroutine does beside a caller in
// Go whose process has one.
func burnsThere(w *world) *task {
	t := burns(w)
	t.pinned = w.cpus[0]
	return t
}

func all(disturb ...func(*world) *task) func(*world) *task {
	return func(w *world) (neighbour *task) {
		for _, d := range disturb {
			if t := d(w); t != nil {
				neighbour = t
			}
		}
		return neighbour
	}
}

// throttled: nobody runs for half of each tenth of a second, as under a quota.
func throttled(w *world) *task {
	var again func()
	again = func() {
		for _, c := range w.cpus {
			w.freeze(c, 50_000_000, hypervisor)
		}
		w.after(100_000_000, again)
	}
	w.after(50_000_000, again)
	return nil
}

var (
	hot       = wanted{ofBest: 0.9, steady: 0.9, least: 0.9}
	disturbed = wanted{ofBest: 0.6, steady: 0.75, least: 0.5}
	crowded   = wanted{ofSleeping: 1.5, neighbour: 0.9}
	many      = wanted{ofSleeping: 3, fair: 0.5}
	cold      = wanted{ofBest: 0.75, ofSleeping: 0.99, cpuSleeping: 1.1}
)

var scenarios = []scenario{
	{name: "quiet", cpus: 2, callers: 1, costs: quick, want: hot},
	{name: "fast wakes", cpus: 2, callers: 1, costs: fast, want: hot},
	{name: "sysmon", cpus: 2, callers: 1, costs: quick, disturb: sysmon, want: hot},
	{name: "sysmon, stacked", cpus: 2, callers: 1, costs: stacked, disturb: sysmon, want: wanted{ofBest: 0.9, steady: 0.9, least: 0.8}},
	{name: "steal 3%", cpus: 2, callers: 1, costs: quick, disturb: all(sysmon, steal(3)), want: disturbed},
	{name: "steal 15%", cpus: 2, callers: 1, costs: quick, disturb: all(sysmon, steal(15)), want: disturbed},
	{name: "steal 15%, stacked", cpus: 2, callers: 1, costs: stacked, disturb: all(sysmon, steal(15)), want: wanted{ofBest: 0.6, steady: 0.65, least: 0.4}},
	{name: "steal 15%, slow wakes", cpus: 2, callers: 1, costs: slow, disturb: all(sysmon, steal(15)), want: disturbed},
	{name: "played", cpus: 2, callers: 1, costs: quick, disturb: all(sysmon, played), want: disturbed},
	{name: "played, stacked", cpus: 2, callers: 1, costs: stacked, disturb: all(sysmon, played), want: disturbed},
	{name: "neighbour", cpus: 2, callers: 1, costs: quick, disturb: burns, want: crowded},
	{name: "neighbour, stacked", cpus: 2, callers: 1, costs: stacked, disturb: burns, want: crowded},
	{name: "neighbour, steal, stacked", cpus: 2, callers: 1, costs: stacked, disturb: all(sysmon, steal(5), burns), want: wanted{ofSleeping: 1, neighbour: 0.9}},
	{name: "bursts", cpus: 2, callers: 1, costs: quick, disturb: bursts, want: wanted{ofBest: 0.9, least: 0.5}},
	{name: "bursts, stacked", cpus: 2, callers: 1, costs: stacked, disturb: bursts, want: wanted{ofBest: 0.9, least: 0.5}},
	{name: "half a quota", cpus: 2, callers: 1, costs: quick, disturb: throttled, want: wanted{ofBest: 0.9}},
	{name: "4 callers", cpus: 2, callers: 4, costs: quick, want: many},
	{name: "4 callers, stacked", cpus: 2, callers: 4, costs: stacked, want: many},
	{name: "16 callers", cpus: 2, callers: 16, costs: quick, want: many},
	{name: "64 callers", cpus: 2, callers: 64, costs: quick, want: many},
	{name: "4 CPUs, 4 callers", cpus: 4, callers: 4, costs: quick, want: many},
	{name: "paced 10 us", cpus: 2, callers: 1, pauseNs: 10_000, costs: quick, want: wanted{ofBest: 0.9}},
	{name: "paced 100 us", cpus: 2, callers: 1, pauseNs: 100_000, costs: quick, want: wanted{ofSleeping: 1, cpuSleeping: 2}},
	{name: "paced 1 ms", cpus: 2, callers: 1, pauseNs: 1_000_000, costs: quick, want: wanted{ofSleeping: 0.99, cpuSleeping: 2.2}},
	{name: "paced 10 ms, slow wakes", cpus: 2, callers: 1, pauseNs: 10_000_000, costs: slow, want: wanted{ofSleeping: 0.99, cpuSleeping: 2.2}},
	{name: "function 1 us", cpus: 2, callers: 1, function: 1_000, costs: quick, want: hot},
	{name: "function 100 us", cpus: 2, callers: 1, function: 100_000, costs: quick, want: cold},
	{name: "function 5 ms", cpus: 2, callers: 1, function: 5_000_000, costs: quick, want: cold},
	{name: "one CPU", cpus: 1, callers: 1, costs: quick, want: wanted{ofSleeping: 0.99, cpuSleeping: 1.1}},
	{name: "one CPU each", cpus: 2, callers: 1, costs: quick, pinned: true, want: hot},
	{name: "one CPU each, neighbour", cpus: 2, callers: 1, costs: quick, pinned: true, disturb: burnsThere, want: crowded},
	{name: "one CPU each, steal 15%", cpus: 2, callers: 1, costs: quick, pinned: true, disturb: all(sysmon, steal(15)), want: disturbed},
}

// An outcome is what a scenario came to. Rates are calls in a microsecond, shares those
// of one CPU.
type outcome struct {
	mean, least, p10, median, most float64
	caller, server                 float64
	neighbour                      float64
	fewest                         float64 // calls of one caller
	pairs                          []*pair
}

// populate makes the scenario's world.
func populate(sc *scenario, m mode, seed uint64) (w *world, pairs []*pair, neighbour *task) {
	w = newWorld(sc.cpus, seed, sc.costs)
	ration := max(sc.cpus-1, 1)
	for range sc.callers {
		p := newPair(w, m, &ration, sc.pauseNs, sc.function)
		p.begin(sc.pinned)
		pairs = append(pairs, p)
	}
	if sc.disturb != nil {
		neighbour = sc.disturb(w)
	}
	return w, pairs, neighbour
}

func simulate(sc *scenario, m mode, seed, forNs uint64) (o outcome) {
	w, pairs, neighbour := populate(sc, m, seed)
	o.pairs = pairs
	w.run(forNs)
	windows := make([]float64, forNs/windowNs)
	for _, p := range o.pairs {
		for i := range windows {
			if i < len(p.windows) {
				windows[i] += float64(p.windows[i]) / windowNs * 1e3
			}
		}
		o.mean += float64(p.calls) / float64(forNs) * 1e3
		o.caller += float64(p.caller.t.usedNs) / float64(forNs)
		o.server += float64(p.server.t.usedNs) / float64(forNs)
	}
	fewest := slices.MinFunc(o.pairs, func(a, b *pair) int { return cmp.Compare(a.calls, b.calls) })
	o.fewest = float64(fewest.calls) / float64(forNs) * 1e3
	slices.Sort(windows)
	n := len(windows)
	o.least, o.p10, o.median, o.most = windows[0], windows[n/10], windows[n/2], windows[n-1]
	if neighbour != nil {
		o.neighbour = float64(neighbour.usedNs) / float64(forNs)
	}
	return o
}

func (o *outcome) String() string {
	p := o.pairs[0]
	return fmt.Sprintf("%7.4f  %7.4f %7.4f %7.4f %7.4f  %.2f %.2f  %.2f  %v %d, %d %d  %d %d", o.mean, o.least, o.p10, o.median, o.most, o.caller, o.server, o.neighbour,
		p.caller.stops, p.server.stops[governor.InVain], p.caller.moves, p.server.moves, p.caller.g.LimitNs()/1000, p.server.g.LimitNs()/1000)
}

// least checks that something is at least such a share of something else.
func least(t *testing.T, what string, got, share, of float64) {
	t.Helper()
	if got < share*of {
		t.Errorf("%s: %.4f, want at least %.2f of %.4f", what, got, share, of)
	}
}

// TestSimulation: sides that are governed get what is to be had, whoever else uses the
// machine, and leave to others what is theirs.
func TestSimulation(t *testing.T) {
	for i := range scenarios {
		sc := &scenarios[i]
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			forNs := sc.lengthNs()
			sleep := simulate(sc, alwaysSleep, seed, 300*ms)
			spin := simulate(sc, alwaysSpin, seed, forNs)
			got := simulate(sc, auto, seed, forNs)
			t.Logf("seed %d; calls/us: mean, least, p10, median, most of %d ms; CPU: caller, server, neighbour; stops by reason, moves, limits in us\nsleep %v\nspin  %v\nauto  %v",
				seed, windowNs/ms, &sleep, &spin, &got)
			w := sc.want
			least(t, "calls, of the best", got.mean, w.ofBest, max(sleep.mean, spin.mean))
			least(t, "calls, of those who sleep", got.mean, w.ofSleeping, sleep.mean)
			least(t, "calls, of the best window", got.mean, w.steady, got.most)
			least(t, "least window, of the best one's", got.least, w.least, max(sleep.least, spin.least))
			least(t, "calls of one, of each who sleeps", got.fewest, w.fair, sleep.mean/float64(sc.callers))
			least(t, "the neighbour's CPU", got.neighbour, w.neighbour, sleep.neighbour)
			if w.cpuSleeping != 0 {
				least(t, "CPU of those who sleep", w.cpuSleeping*(sleep.caller+sleep.server), 1, got.caller+got.server)
			}
		})
	}
}
