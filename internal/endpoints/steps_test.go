package endpoints_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/nearcall/nearcall/internal/endpoints"
	"github.com/nearcall/nearcall/internal/wire"
)

// stepLimits are those of libnearcall.
var stepLimits = endpoints.Limits{
	RestFirst: wire.EndpointRestFirstMs * ms, Rest: wire.EndpointRestMs * ms,
	Full: wire.EndpointFullMs * ms, Return: wire.EndpointReturnMs * ms,
}

const (
	stepsPath = "testdata/steps.txt"
	walks     = 40
	walkSteps = 100
	// indexes is how many endpoints a set of libnearcall holds.
	indexes = 16
)

var update = flag.Bool("update", false, "write "+stepsPath+" anew")

// A xorshift draws as nc_random of libnearcall does.
type xorshift uint64

func (x *xorshift) IntN(n int) int {
	*x ^= *x << 13
	*x ^= *x >> 7
	*x ^= *x << 17
	return int(uint64(*x) % uint64(n))
}

// A walk writes down random steps of one set, each with what the set has answered. A number
// behind a step that draws is the seed of what it draws.
type walk struct {
	out    *bytes.Buffer
	random *rand.Rand
	set    *endpoints.Set
	nowNs  uint64
	there  endpoints.Bits
}

// TestSteps holds the set to steps that were written down. libnearcall decides by code of its own,
// which is held to the same steps (libnearcall/tests/choice.c).
func TestSteps(t *testing.T) {
	var out bytes.Buffer
	for seed := range uint64(walks) {
		w := &walk{out: &out, random: newRandom(seed), set: endpoints.New(stepLimits), nowNs: ms}
		w.say("new")
		for range 1 + w.random.IntN(6) {
			w.add()
		}
		for range walkSteps {
			w.step()
		}
	}
	if *update {
		if err := os.WriteFile(stepsPath, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(stepsPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, out.Bytes()) {
		t.Errorf("%s differs from what the set decides; look at it, then write it by -update", stepsPath)
	}
}

func (w *walk) say(format string, numbers ...any) { fmt.Fprintf(w.out, format+"\n", numbers...) }

func (w *walk) draw() (*xorshift, uint64) {
	seed := 1 + w.random.Uint64N(1<<32)
	random := xorshift(seed)
	return &random, seed
}

// some returns an endpoint that is there, if there is one.
func (w *walk) some() (int, bool) {
	index := w.random.IntN(indexes)
	return index, w.there.Has(index)
}

func (w *walk) add() {
	if w.there == 1<<indexes-1 {
		return
	}
	group, beside := w.random.IntN(3), w.random.IntN(2)
	index := w.set.Add(group, beside == 1)
	w.there = w.there.With(index)
	w.say("add %d %d = %d", group, beside, index)
}

func (w *walk) step() {
	w.nowNs += uint64(w.random.IntN(80 * ms))
	index, there := w.some()
	random, seed := w.draw()
	switch kind := w.random.IntN(20); {
	case kind < 8:
		one, other := w.random.IntN(1<<indexes), w.random.IntN(1<<indexes)
		not := endpoints.Bits(one & other)
		picked, rests, found := w.set.Pick(w.nowNs, random, not)
		if !found {
			picked = -1
		}
		w.say("pick %d %d %d = %d %d", w.nowNs, not, seed, picked, number(rests))
		if found && w.random.IntN(2) == 0 {
			w.fail(picked)
		}
	case kind < 10:
		group := w.random.IntN(3)
		probed, due := w.set.Probe(w.nowNs, group)
		if !due {
			probed = -1
		}
		w.say("probe %d %d = %d", w.nowNs, group, probed)
	case kind == 10 && w.random.IntN(3) == 0:
		w.add()
	case kind == 11:
		those := endpoints.Bits(w.random.IntN(1 << indexes))
		nearest, found := w.set.Nearest(those)
		if !found {
			nearest = -1
		}
		w.say("nearest %d = %d %d", those, nearest, number(w.set.Others(those)))
	case there:
		w.stepOf(index, kind, seed)
	}
}

// stepOf is a step about one endpoint.
func (w *walk) stepOf(index, kind int, seed uint64) {
	random := xorshift(seed)
	switch {
	case kind == 12:
		w.set.Silent(index, w.nowNs, &random)
		w.say("silent %d %d %d", index, w.nowNs, seed)
	case kind == 13:
		w.set.Full(index, w.nowNs)
		w.say("full %d %d", index, w.nowNs)
	case kind == 14 && w.random.IntN(4) == 0:
		w.set.Remove(index)
		w.there &^= 1 << index
		w.say("remove %d", index)
	case kind < 17:
		w.set.Succeeded(index)
		w.say("succeeded %d", index)
	default:
		state, rests := w.set.Look(index, w.nowNs)
		w.say("look %d %d = %d %d %d", index, w.nowNs, state, rests, number(w.set.Alone(index)))
	}
}

func (w *walk) fail(index int) {
	random, seed := w.draw()
	w.set.Failed(index, w.nowNs, random)
	w.say("failed %d %d %d", index, w.nowNs, seed)
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
