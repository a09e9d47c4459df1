package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/gate"
)

const fakePairs = 5

// pairsOfFakes measures a row of fake callers, of which each side has one.
func pairsOfFakes(t *testing.T, ctx context.Context, ofBase, ofHead string) gate.Row {
	t.Helper()
	t.Setenv(asCaller, "1")
	folder, watch := t.TempDir(), newProgress(discard(t), time.Second)
	fake := func(name, behaviour string) *side {
		g := group{name: "fakes", rows: []rowPlan{fakeRow(t, "fake", behaviour)}}
		return &side{name: name, group: g, scene: &scene{progress: watch, folder: filepath.Join(folder, name)}}
	}
	return takePairs(ctx, fakePairs, fake("base", ofBase), fake("head", ofHead))
}

func TestPairsHaveATurnOfEachSide(t *testing.T) {
	row := pairsOfFakes(t, t.Context(), "", "")
	fastest := slices.Repeat([]float64{float64(slices.Min(fakeTimes))}, fakePairs)
	if len(row.Sets) != 1 || !slices.Equal(row.Sets[0].Base, fastest) || !slices.Equal(row.Sets[0].Head, fastest) || row.Bytes != smallBytes {
		t.Errorf("%+v", row)
	}
}

// Of calls in flight together the turn is judged by the rate that is published.
func TestCallsInFlightAreComparedByTheirRate(t *testing.T) {
	turn := round{p10: 3, perSecond: 1e8}
	for callers, want := range map[int]float64{1: 3, 64: 10} {
		if got := comparedFigure(rowPlan{callers: callers})(turn); got != want {
			t.Errorf("%d in flight: %v ns, want %v", callers, got, want)
		}
	}
}

func TestPairsOfASideThatFailsAreNone(t *testing.T) {
	for name, row := range map[string]gate.Row{"base": pairsOfFakes(t, t.Context(), "dies", ""), "head": pairsOfFakes(t, t.Context(), "", "dies")} {
		why := map[string]string{"base": row.FailedBase, "head": row.FailedHead}
		if len(row.Sets) != 0 || !strings.HasPrefix(why[name], name+", turn: no report") || row.FailedBase != "" && row.FailedHead != "" {
			t.Errorf("%s died: %+v", name, row)
		}
	}
}

func TestPairsEndWithTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if row := pairsOfFakes(t, ctx, "", ""); len(row.Sets) != 1 || len(row.Sets[0].Base) != 0 {
		t.Errorf("%+v", row)
	}
}

func TestComparedRowsAreOfTheProject(t *testing.T) {
	single, err := options{quick: true, only: "^(small|embed|pipelined)$"}.singleRows()
	check(t, err)
	for _, one := range single {
		if len(one.rows) != 1 || strings.HasPrefix(one.rows[0].name, "floor-") {
			t.Errorf("%s has %+v", one.name, one.rows)
		}
	}
	if len(single) != 23 {
		t.Errorf("%d rows", len(single))
	}
}

// What is held to a CPU stays there with all its threads.
func TestHeldToACPU(t *testing.T) {
	t.Setenv(asCaller, "1")
	caller := started(t, fakeRow(t, "fake", "").program[0], "")
	cpu, err := firstCPU()
	if err == nil {
		err = holdTo(caller, cpu)
	}
	var may unix.CPUSet
	if err == nil {
		err = unix.SchedGetaffinity(caller.PID(), &may)
	}
	if err != nil || may.Count() != 1 || !may.IsSet(cpu) {
		t.Errorf("%v: CPUs %v", err, may)
	}
}

// A comparison fails by what it measured, also where that is judged again.
func TestComparisonFailsWhereHeadIsSlower(t *testing.T) {
	for head, want := range map[float64]error{500: nil, 400: nil, 600: errSlower} {
		set := gate.Set{Base: []float64{500, 500, 500}, Head: []float64{head, head, head}}
		o := options{judge: true, out: t.TempDir()}
		row := gate.Row{Name: "nearcall-c-shm", Bytes: 64, Sets: slices.Repeat([]gate.Set{set}, gate.SetsMin)}
		check(t, gate.Write(filepath.Join(o.out, turnsName), []gate.Row{row}))
		if err := o.run(t.Context()); !errors.Is(err, want) {
			t.Errorf("%v ns beside 500: %v", head, err)
		}
	}
	if err := (options{base: "there", out: t.TempDir(), sets: gate.SetsMin - 1}).run(t.Context()); err == nil {
		t.Error("too few sets are measured")
	}
}
