package endpoints_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nearcall/nearcall/internal/endpoints"
)

const ms = 1_000_000

var limits = endpoints.Limits{RestFirst: 100 * ms, Rest: 10_000 * ms, Full: 50 * ms, Return: 1_000 * ms, Load: 10_000 * ms}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// newSet returns a set with so many endpoints in each group.
func newSet(beside bool, groups ...int) *endpoints.Set {
	s := endpoints.New(limits)
	for group, size := range groups {
		for range size {
			s.Add(group, beside)
		}
	}
	return s
}

// expectPick picks, and expects one of these endpoints.
func expectPick(t *testing.T, s *endpoints.Set, nowNs uint64, not endpoints.Bits, rests bool, want ...int) int {
	t.Helper()
	got, resting, found := s.Pick(nowNs, newRandom(nowNs), not)
	for _, index := range want {
		if found && got == index && resting == rests {
			return got
		}
	}
	t.Fatalf("picked %d, found %v, rests %v; want one of %v, rests %v", got, found, resting, want, rests)
	return 0
}

func TestNearestFirst(t *testing.T) {
	s, random := newSet(false, 1, 2), newRandom(1)
	expectPick(t, s, 0, 0, false, 0)
	expectPick(t, s, 0, endpoints.Bits(0).With(0), false, 1, 2)
	s.Failed(0, 0, random)
	first := expectPick(t, s, 1, 0, false, 1, 2)
	s.Failed(first, 1, random)
	second := expectPick(t, s, 2, 0, false, 1, 2)
	if second == first {
		t.Fatal("picked one that rests")
	}
	s.Failed(second, 2, random)
	expectPick(t, s, 3, 0, true, 0, 1, 2)
	if _, _, found := s.Pick(3, random, 7); found {
		t.Fatal("picked one that is not wanted")
	}
	s.Succeeded(0)
	expectPick(t, s, 3, 0, false, 0)
}

func TestLessBusyOfTwo(t *testing.T) {
	s := newSet(false, 2)
	s.Began(0)
	expectPick(t, s, 0, 0, false, 1)
	s.Began(1)
	s.Began(1)
	expectPick(t, s, 0, 0, false, 0)
	s.Ended(1)
	expectPick(t, s, 0, 0, false, 0, 1)
	s.Began(0)
	expectPick(t, s, 0, 0, false, 1)
}

// The less busy one of two gets more calls, in proportion, and the other one still gets some. That
// ends with the time for which a load counts.
func TestLoadsGiveChances(t *testing.T) {
	const picks = 100_000
	s, random := newSet(false, 2), newRandom(1)
	share := func(nowNs uint64) float64 {
		first := 0
		for range picks {
			index, _, _ := s.Pick(nowNs, random, 0)
			first += 1 - index
		}
		return float64(first) / picks
	}
	within := func(what string, got, want float64) {
		t.Helper()
		if got < want-0.01 || got > want+0.01 {
			t.Errorf("%s: the first endpoint has %.3f of the calls, want %.3f", what, got, want)
		}
	}
	within("nothing is known", share(0), 0.5)
	s.Load(0, 5000, 0)
	within("one load is known", share(0), 0.5)
	s.Load(1, 1000, 5_000*ms)
	within("far busier", share(5_000*ms), 0.25)
	s.Load(0, 0, 5_000*ms)
	within("idle beside a busy one", share(5_000*ms), 2000.0/3000)
	s.Load(0, 1000, 5_000*ms)
	within("equally busy", share(5_000*ms), 0.5)
	s.Load(0, 1<<32-1, 5_000*ms)
	within("beyond all measure", share(5_000*ms), 0)
	within("long ago", share(15_000*ms), 0.5)
	s.Load(0, 999, 15_000*ms)
	s.Load(1, 0, 15_000*ms)
	s.Began(1)
	within("calls of one's own count first", share(15_000*ms), 1)
}

// After a rest one call finds out whether the endpoint is back.
func TestOneTriesAfterARest(t *testing.T) {
	s, random := newSet(false, 1, 1), newRandom(1)
	s.Failed(0, 0, random)
	const over = 150 * ms
	expectPick(t, s, over, 0, false, 0)
	expectPick(t, s, over, 0, false, 1)
	s.Succeeded(0)
	expectPick(t, s, over, 0, false, 0)
	expectPick(t, s, over, 0, false, 0)
}

// The same holds for an endpoint that was chosen by others.
func TestTake(t *testing.T) {
	s, random := newSet(false, 2), newRandom(1)
	s.Failed(0, 0, random)
	const over = 150 * ms
	for _, step := range []struct {
		nowNs uint64
		index int
		want  bool
	}{{1, 0, false}, {1, 1, true}, {over, 0, true}, {over, 0, false}, {over, 1, true}} {
		if got := s.Take(step.index, step.nowNs); got != step.want {
			t.Errorf("after %d ns, endpoint %d: %v, want %v", step.nowNs, step.index, got, step.want)
		}
	}
	s.Succeeded(0)
	s.Silent(0, over, random)
	if s.Take(0, 10*over) {
		t.Error("a call tries one that was silent")
	}
	s.Remove(1)
	if s.Take(1, 10*over) {
		t.Error("taken although it was removed")
	}
}

// An endpoint that is tried beside calls takes none until it is back.
func TestTriedBesideCalls(t *testing.T) {
	s, random := newSet(true, 1, 1), newRandom(1)
	if _, due := s.Probe(0, 1); due {
		t.Fatal("due without a failure")
	}
	s.Failed(0, 0, random)
	if _, due := s.Probe(1, 1); due {
		t.Fatal("due although it rests")
	}
	const over = 150 * ms
	expectPick(t, s, over, 0, false, 1)
	if index, due := s.Probe(over, 1); !due || index != 0 {
		t.Fatalf("due: %d, %v", index, due)
	}
	if _, due := s.Probe(over, 1); due {
		t.Fatal("due twice")
	}
	s.Succeeded(0)
	expectPick(t, s, over, 0, false, 0)
	s.Failed(1, over, random)
	if _, due := s.Probe(10*over, 0); due {
		t.Fatal("one that is farther than what calls use is due")
	}
}

// So does one that was silent, however near it is.
func TestSilent(t *testing.T) {
	s, random := newSet(false, 1, 1), newRandom(1)
	s.Silent(0, 0, random)
	const over = 150 * ms
	expectPick(t, s, over, 0, false, 1)
	if index, due := s.Probe(over, 1); !due || index != 0 {
		t.Fatalf("due: %d, %v", index, due)
	}
	s.Failed(0, over, random)
	expectPick(t, s, 10*over, 0, false, 0)
}

func TestFull(t *testing.T) {
	s, random := newSet(true, 1, 1), newRandom(1)
	s.Full(0, 0)
	expectPick(t, s, 1, 0, false, 1)
	if state, rests := s.Look(0, 10*ms); state != endpoints.Full || rests != 40*ms {
		t.Errorf("full: state %v for %d ns", state, rests)
	}
	if state, rests := s.Look(0, 50*ms); state != endpoints.Ready || rests != 0 {
		t.Errorf("after that: state %v for %d ns", state, rests)
	}
	expectPick(t, s, 50*ms, 0, false, 0)
	s.Silent(0, 50*ms, random)
	s.Full(0, 50*ms)
	if state, _ := s.Look(0, 50*ms); state != endpoints.Silent {
		t.Errorf("a full one that is silent: state %v", state)
	}
}

func TestAddAndRemove(t *testing.T) {
	s := newSet(false, 1)
	if !s.Alone(0) || s.Others(1) {
		t.Error("one endpoint is not alone")
	}
	far := s.Add(1, true)
	if !s.Alone(0) || !s.Others(1) || s.Group(far) != 1 {
		t.Error("a farther endpoint is in the way")
	}
	near := s.Add(0, true)
	if s.Alone(0) {
		t.Error("alone beside another")
	}
	if nearest, found := s.Nearest(endpoints.Bits(0).With(far).With(near)); !found || nearest != near {
		t.Errorf("the nearest is %d, %v", nearest, found)
	}
	s.Began(near)
	s.Remove(near)
	if again := s.Add(0, true); again == near {
		t.Error("the index of an endpoint with calls is used again")
	} else {
		s.Remove(again)
	}
	s.Ended(near)
	if again := s.Add(1, true); again != near {
		t.Errorf("index %d, want %d again", again, near)
	}
	for range endpoints.Max - 3 {
		if s.Add(2, true) < 0 {
			t.Fatal("no room")
		}
	}
	if s.Add(2, true) >= 0 {
		t.Error("room for too many")
	}
}

// Rests double up to a limit, are drawn around their mean, and are short if calls go to equals or
// farther meanwhile.
func TestRestsGrow(t *testing.T) {
	random := newRandom(2)
	for what, others := range map[string]struct {
		group int
		short bool
	}{"alone": {-1, false}, "farthest": {0, false}, "equals": {1, true}, "nearer": {2, true}} {
		s := endpoints.New(limits)
		s.Add(1, true)
		if others.group >= 0 {
			s.Add(others.group, true)
		}
		mean := uint64(100 * ms)
		for range 12 {
			s.Failed(0, 0, random)
			_, rests := s.Look(0, 0)
			least, most := mean/2, mean+mean/2
			if others.short {
				least, most = min(least, 1000*ms), min(most, 1000*ms)
			}
			if rests < least || rests > most+ms {
				t.Errorf("%s: rests %d ns, want %d to %d", what, rests, least, most)
			}
			mean = min(2*mean, 10_000*ms)
		}
		s.Succeeded(0)
		s.Failed(0, 0, random)
		if _, rests := s.Look(0, 0); rests > 151*ms {
			t.Errorf("after a success it rests %d ns", rests)
		}
	}
}
