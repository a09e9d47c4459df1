package gate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/gate"
)

func read(t *testing.T, path string) gate.Times {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	times, err := gate.Read(file, path)
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// Recorded, both sides of the same revision, on a machine where much else ran: the means
// differ by 17 %, which says nothing.
func TestChanceDoesNotFail(t *testing.T) {
	verdict, err := gate.Judge(read(t, "testdata/loaded-base.txt"), read(t, "testdata/loaded-head.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Worse() || verdict.P < verdict.Alpha || verdict.Runs != 6 {
		t.Errorf("%v", verdict)
	}
	// The other way round head seems slower by far.
	verdict, err = gate.Judge(read(t, "testdata/loaded-head.txt"), read(t, "testdata/loaded-base.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Worse() || verdict.Ratio < gate.WorseMax {
		t.Errorf("%v", verdict)
	}
}

// Recorded on the same machine: in head every function that takes values spins for
// 20 us first.
func TestRecordedSlowDownFails(t *testing.T) {
	verdict, err := gate.Judge(read(t, "testdata/slower-base.txt"), read(t, "testdata/slower-head.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !verdict.Worse() {
		t.Errorf("%v", verdict)
	}
}

func TestSameResultsPass(t *testing.T) {
	times := read(t, "testdata/loaded-base.txt")
	verdict, err := gate.Judge(times, times)
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Worse() || verdict.Ratio != 1 {
		t.Errorf("%v", verdict)
	}
}

// quiet are results as of a quiet machine: each run within 3 % of what it would be.
func quiet(random *rand.Rand, slower map[string]float64) string {
	var text strings.Builder
	for range 10 {
		for name, ns := range map[string]float64{"shm": 600, "socket": 15_000, "embed": 130, "pipelined": 16_000} {
			if factor := slower[name]; factor > 0 {
				ns *= factor
			}
			fmt.Fprintf(&text, "BenchmarkCall/row=%s 1000 %f ns/op\n", name, ns*(0.97+0.06*random.Float64()))
		}
	}
	return text.String()
}

func TestSlowerFails(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, test := range []struct {
		name   string
		slower map[string]float64
		worse  bool
	}{
		{"as before", nil, false},
		{"all by 10 %", map[string]float64{"shm": 1.1, "socket": 1.1, "embed": 1.1, "pipelined": 1.1}, true},
		{"all by 3 %", map[string]float64{"shm": 1.03, "socket": 1.03, "embed": 1.03, "pipelined": 1.03}, false},
		{"one of four by half", map[string]float64{"embed": 1.5}, true},
		{"one of four by 10 %", map[string]float64{"embed": 1.1}, false},
		{"all faster", map[string]float64{"shm": 0.8, "socket": 0.8, "embed": 0.8, "pipelined": 0.8}, false},
	} {
		base, err := gate.Read(strings.NewReader(quiet(random, nil)), "base")
		if err != nil {
			t.Fatal(err)
		}
		head, err := gate.Read(strings.NewReader(quiet(random, test.slower)), "head")
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := gate.Judge(base, head)
		if err != nil {
			t.Fatal(err)
		}
		if verdict.Worse() != test.worse {
			t.Errorf("%s: %v", test.name, verdict)
		}
	}
}

func TestRefusals(t *testing.T) {
	some := gate.Times{"a": {1, 2, 3, 4}, "b": {1, 2, 3, 4}}
	for name, sides := range map[string][2]gate.Times{
		"nothing in common": {some, {"c": {1, 2, 3, 4}}},
		"too few runs":      {{"a": {1, 2, 3}}, {"a": {1, 2, 3}}},
		"runs that differ":  {some, {"a": {1, 2, 3, 4, 5}, "b": {1, 2, 3, 4}}},
	} {
		if verdict, err := gate.Judge(sides[0], sides[1]); err == nil {
			t.Errorf("%s: %v", name, verdict)
		}
	}
	verdict, err := gate.Judge(some, gate.Times{"a": {1, 2, 3, 4}})
	if err != nil || len(verdict.LeftOut) != 1 || verdict.LeftOut[0] != "b" {
		t.Errorf("%v, %v", verdict.LeftOut, err)
	}
	for _, text := range []string{"", "BenchmarkX 1 z ns/op\n"} {
		if times, err := gate.Read(strings.NewReader(text), "text"); err == nil {
			t.Errorf("%q has %v", text, times)
		}
	}
}
