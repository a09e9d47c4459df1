package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// scheduled is what a run would measure, all groups that this machine can make.
func scheduled(t *testing.T, o options) schedule {
	t.Helper()
	s, err := o.schedule(t.TempDir())
	check(t, err)
	return s
}

func TestRunsAreInTime(t *testing.T) {
	const building = 6 * time.Minute // before a full run, in a tree where nothing was
	for _, cpus := range []int{1, 2, 8, 12, 15, 16, 20, 48} {
		for _, run := range []struct {
			name  string
			quick bool
			most  time.Duration
		}{{"full", false, fullLimit - building}, {"quick", true, quickLimit}} {
			s := scheduled(t, options{tools: tools{cpus: cpus}, quick: run.quick})
			if got := s.length(); got > run.most || got < run.most/10 {
				t.Errorf("with %d CPUs a %s run would take %s, and has %s", cpus, run.name, got, run.most)
			}
			if len(s.groups) == 0 || len(s.parts) == 0 {
				t.Errorf("with %d CPUs a %s run measures %d groups and %d parts", cpus, run.name, len(s.groups), len(s.parts))
			}
		}
	}
}

func TestComparisonsNameRowsThatTakeTurns(t *testing.T) {
	in := map[result.Figure][]string{} // groups by their rows
	for _, group := range (tools{}).groups() {
		for _, row := range group.rows {
			key := result.Figure{Row: row.name, Size: row.size}
			in[key] = append(in[key], group.name)
		}
	}
	for _, c := range comparisons() {
		of := in[result.Figure{Row: c.Of.Row, Size: c.Of.Size}]
		if len(of) == 0 {
			t.Errorf("no group has the row %s of %d bytes", c.Of.Row, c.Of.Size)
		}
		if c.With == nil {
			continue
		}
		with := in[result.Figure{Row: c.With.Row, Size: c.With.Size}]
		if len(with) == 0 {
			t.Errorf("no group has the row %s of %d bytes", c.With.Row, c.With.Size)
		}
		together := slices.ContainsFunc(of, func(name string) bool { return slices.Contains(with, name) })
		if !together {
			t.Errorf("%s (in %s) and %s (in %s) do not take turns", c.Of.Row, strings.Join(of, ", "), c.With.Row, strings.Join(with, ", "))
		}
	}
}

func TestOnlyChoosesAlsoWhatQuickRunsLeaveOut(t *testing.T) {
	s := scheduled(t, options{quick: true, only: "^(one-cpu|idle)$"})
	if len(s.groups) != 1 || s.groups[0].name != "one-cpu" || len(s.parts) != 1 || s.parts[0].name != "idle" {
		t.Errorf("chosen are %d groups and %d parts", len(s.groups), len(s.parts))
	}
}
