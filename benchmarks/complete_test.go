package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// completeOn is a result of all that a full run measures on a machine with so many
// processors: every row of it has failed, which is enough here.
func completeOn(t *testing.T, cpus int) *result.Result {
	t.Helper()
	o := options{tools: tools{cpus: cpus}}
	s := scheduled(t, o)
	r := ofRevision()
	r.Machine.CPUs = cpus
	for _, group := range s.groups {
		for _, row := range group.rows {
			r.Rows = append(r.Rows, result.Row{Name: row.name, Size: row.size, Group: group.name, Failed: "as a test wants it"})
		}
	}
	for _, part := range s.parts {
		r.Measures = append(r.Measures, result.Measure{Name: "of " + part.name, Part: part.name})
	}
	return r
}

// Whoever checks has another machine than who measured.
func TestWhatIsPlannedIsThatOfTheResultsMachine(t *testing.T) {
	for _, cpus := range []int{1, 2, 7, 48} {
		if err := (options{}).complete(completeOn(t, cpus), nil); err != nil {
			t.Errorf("%d processors: %v", cpus, err)
		}
	}
	r := completeOn(t, 2)
	r.Machine.CPUs = 48
	if err := (options{}).complete(r, nil); err == nil || !strings.Contains(err.Error(), "busy-35") {
		t.Errorf("a result of 2 processors passes for one of 48: %v", err)
	}
}

func TestWhatIsNotInTheResultIsMissed(t *testing.T) {
	without := func(row string) *result.Result {
		r := completeOn(t, 2)
		for i := range r.Rows {
			if r.Rows[i].Name == row {
				r.Rows = append(r.Rows[:i:i], r.Rows[i+1:]...)
				return r
			}
		}
		t.Fatalf("no row %s", row)
		return nil
	}
	r := without("nearcall-c-shm-half-cpu")
	if err := (options{}).complete(r, nil); err == nil || !strings.Contains(err.Error(), "of 1 rows and parts") || !strings.Contains(err.Error(), "nearcall-c-shm-half-cpu of 64 bytes, in half-cpu") {
		t.Errorf("a row: %v", err)
	}
	for _, excuse := range []string{"half-cpu", "nearcall-c-shm-half-cpu"} {
		r.LeftOut = []result.LeftOut{{Group: excuse, Why: "no control group"}}
		if err := (options{}).complete(r, nil); err != nil {
			t.Errorf("%s is left out: %v", excuse, err)
		}
	}
	// Of the same name, but another size and group.
	if err := (options{}).complete(without("nearcall-c-socket"), nil); err == nil {
		t.Error("a row stands for that of another size")
	}
	r = completeOn(t, 2)
	r.Measures = r.Measures[1:]
	if err := (options{}).complete(r, nil); err == nil || !strings.Contains(err.Error(), "server_allocations") {
		t.Errorf("a part: %v", err)
	}
	r.LeftOut = []result.LeftOut{{Group: "server_allocations", Why: "it failed", Failed: true}}
	if err := (options{}).complete(r, nil); err != nil {
		t.Errorf("a part that failed: %v", err)
	}
}

// What a full run leaves is what -check wants.
func TestCheckPassesAfterAFullRun(t *testing.T) {
	o := options{tools: project(t)}
	check(t, os.MkdirAll(o.results(), 0o755))
	check(t, os.WriteFile(filepath.Join(o.results(), awaitedName), []byte("# awaited\na row\n"), 0o644))
	if awaited, err := o.awaitedRows(); err != nil || !slices.Equal(awaited, []string{"a row"}) {
		t.Errorf("%v, %v", awaited, err)
	}
	check(t, o.keep(completeOn(t, 2)))
	o.check = true
	if err := o.reportAgain(); err != nil {
		t.Error(err)
	}
}

func TestAwaitedRows(t *testing.T) {
	const row = "nearcall-c-shm-half-cpu of 64 bytes, in half-cpu"
	r := completeOn(t, 2)
	if err := (options{}).complete(r, []string{row}); err == nil || !strings.Contains(err.Error(), "delete its line") {
		t.Errorf("a row that is measured may be awaited: %v", err)
	}
	r.Rows = slices.DeleteFunc(r.Rows, func(of result.Row) bool { return of.Name == "nearcall-c-shm-half-cpu" })
	if err := (options{}).complete(r, []string{row}); err != nil {
		t.Errorf("an awaited row is missed: %v", err)
	}
}
