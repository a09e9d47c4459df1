package endpoints_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nearcall/nearcall/internal/endpoints"
)

const steps = 1_000_000

// A world is a set of endpoints of which each works or not, and what calls found there.
type world struct {
	t       *testing.T
	random  *rand.Rand
	set     *endpoints.Set
	nowNs   uint64
	groups  []int
	works   []bool
	calls   []int
	picked  []uint64 // when a call went there last
	changed uint64   // when an endpoint has last begun or ceased to work
}

// TestRules makes a million random steps of calls, failures and returns, and holds each
// choice to the rules.
func TestRules(t *testing.T) {
	const seed = 18
	w := &world{t: t, random: newRandom(seed), set: endpoints.New(limits)}
	for group, size := range []int{1, 3, 2, 4} {
		for range size {
			w.set.Add(group, group != 0)
			w.groups, w.works = append(w.groups, group), append(w.works, true)
		}
	}
	w.calls, w.picked = make([]int, len(w.groups)), make([]uint64, len(w.groups))
	for step := range steps {
		w.nowNs += uint64(w.random.IntN(ms))
		switch w.random.IntN(2000) {
		case 0:
			i := w.random.IntN(len(w.works))
			w.works[i] = !w.works[i]
			w.changed = w.nowNs
		case 1:
			w.set.Load(w.random.IntN(len(w.works)), uint32(w.random.IntN(5000)), w.nowNs)
			w.set.Full(w.random.IntN(len(w.works)), w.nowNs)
		}
		w.call()
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, step)
		}
	}
	for i := range w.picked {
		if w.picked[i] == 0 {
			t.Errorf("endpoint %d was never used", i)
		}
	}
}

// call makes a call, which moves on until it has found an endpoint that works.
func (w *world) call() {
	w.probe()
	var tried endpoints.Bits
	for {
		before := w.states()
		index, rests, found := w.set.Pick(w.nowNs, w.random, tried)
		if !found {
			if tried != 1<<len(w.groups)-1 {
				w.t.Errorf("no choice is left after %b", tried)
			}
			return
		}
		if tried.Has(index) {
			w.t.Errorf("%d was picked again", index)
		}
		w.checkNearest(index, rests, tried, before)
		tried = tried.With(index)
		if w.works[index] {
			w.set.Succeeded(index)
			w.use(index)
			return
		}
		w.set.Failed(index, w.nowNs, w.random)
		if _, rests := w.set.Look(index, w.nowNs); rests < 50*ms {
			w.t.Errorf("%d has failed, and rests for %d ns", index, rests)
		}
	}
}

// use lets the call last, and ends another one.
func (w *world) use(index int) {
	w.picked[index] = w.nowNs
	w.set.Began(index)
	w.calls[index]++
	if other := w.random.IntN(len(w.calls)); w.calls[other] > 0 {
		w.calls[other]--
		w.set.Ended(other)
	}
}

// probe tries what is to be tried beside calls.
func (w *world) probe() {
	for {
		index, due := w.set.Probe(w.nowNs, 3)
		switch {
		case !due:
			return
		case w.works[index]:
			w.set.Succeeded(index)
		default:
			w.set.Failed(index, w.nowNs, w.random)
		}
	}
}

// states says of each endpoint whether it is left alone. One that has failed, and is tried
// beside calls, is left alone until it is back.
func (w *world) states() (alone []bool) {
	for i := range w.groups {
		state, rests := w.set.Look(i, w.nowNs)
		failed := state == endpoints.Failed || state == endpoints.Silent
		alone = append(alone, rests > 0 || failed && w.groups[i] != 0)
	}
	return alone
}

// checkNearest holds a choice to the rule: nothing nearer could be used, and what rests is
// used only if everything does.
func (w *world) checkNearest(index int, rests bool, tried endpoints.Bits, alone []bool) {
	if alone[index] != rests {
		w.t.Errorf("%d was picked, left alone: %v, and said to rest: %v", index, alone[index], rests)
	}
	for i := range w.groups {
		if !tried.Has(i) && !alone[i] && (rests || w.groups[i] < w.groups[index]) {
			w.t.Errorf("%d was picked (rests: %v), and %d is nearer", index, rests, i)
		}
	}
}

// Endpoints that all work share calls: nobody is left without, and a slow one gets fewer.
func TestShares(t *testing.T) {
	const count, calls = 4, 100_000
	s, random := newSet(true, count), newRandom(4)
	var took [count]int
	type running struct {
		index int
		endNs uint64
	}
	var nowNs uint64
	var inFlight []running
	for range calls {
		nowNs += ms
		left := inFlight[:0]
		for _, r := range inFlight {
			if r.endNs > nowNs {
				left = append(left, r)
			} else {
				s.Ended(r.index)
			}
		}
		inFlight = left
		index, _, _ := s.Pick(nowNs, random, 0)
		s.Began(index)
		took[index]++
		length := uint64(3 * ms)
		if index == 0 {
			length *= 4
		}
		inFlight = append(inFlight, running{index, nowNs + length})
	}
	t.Logf("shares: %v", took)
	for i := range count {
		if took[i] < calls/20 {
			t.Errorf("endpoint %d got %d of %d calls", i, took[i], calls)
		}
	}
	if fastest := min(took[1], took[2], took[3]); took[0]*3 > fastest*2 {
		t.Errorf("the slow one got %d calls, another %d", took[0], fastest)
	}
}
