package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/internal/windows"
)

// movingCallers are callers whose calls move the clock.
func movingCallers(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"Perl": {"perl", "-Itestdata/moved", "callers/caller.pl", "one", "", "0"}}
	for language, command := range timedCallers(t) {
		all[language] = command("clock")
	}
	return all
}

// A call that takes long leaves the windows before its end empty, in every language.
func TestCallersCountByWindows(t *testing.T) {
	// Ends are at 3, 6, 9 | 12 | | | 47.5 | 50.5 and so on to 98.5 | 101.5 ms.
	want := []uint64{3, 1, 0, 0, 1, 4, 3, 3, 4, 3}
	const calls, elapsed = 23, 101_500 * time.Microsecond
	for language, command := range movingCallers(t) {
		t.Run(language, func(t *testing.T) {
			caller := started(t, command...)
			r, err := measure([]*process.Process{caller}, nobody, nil, turn{length: 100 * time.Millisecond, window: 10 * time.Millisecond})
			if err != nil {
				t.Fatalf("%v%s", err, caller.Complaints())
			}
			if !slices.Equal(r.windows, want) || r.calls != calls || r.perSample != 1 {
				t.Errorf("%d calls, in windows %v, not %v", r.calls, r.windows, want)
			}
			// The first of 16 calls is a sample.
			if len(r.samples) != 2 || apart(r.samples[0], 3*time.Millisecond) || apart(r.samples[1], 3*time.Millisecond) {
				t.Errorf("the samples are %v", r.samples)
			}
			if got := time.Duration(calls / r.perSecond * float64(time.Second)); apart(uint64(got), elapsed) {
				t.Errorf("it took %v, not %v", got, elapsed)
			}
		})
	}
}

// apart reports whether a time is another than wanted, by more than the clock of Perl, which
// counts in seconds, may be off.
func apart(ns uint64, wanted time.Duration) bool { return (time.Duration(ns) - wanted).Abs() > 10 }

// windowed is a row of one caller whose rounds were of a second each, in windows of a
// quarter of one.
func windowed(beside *company, rounds ...[]uint64) measuredRow {
	row := measuredRow{plan: rowPlan{name: "nearcall-c-shm-sustained", size: smallBytes, window: 250 * time.Millisecond}, beside: beside}
	for i, counts := range rounds {
		r := round{window: row.plan.window, windows: counts, perSample: 1, p50: 1000, p99: 2000, beside: 0.25 + 0.5*float64(i), samples: []uint64{1000}}
		for _, count := range counts {
			r.calls += count
		}
		r.perSecond = float64(r.calls)
		if err := row.keep(r); err != nil {
			panic(err) // it went by what nobody minds
		}
	}
	row.summarise()
	return row
}

func TestRowsTellWhatWindowsWere(t *testing.T) {
	row := windowed(neighbour, []uint64{100_000, 10_000, 200_000, 90_000}, []uint64{0, 100_000, 49_999, 50_000}).reduced()
	want := result.Sustained{
		WindowMS: 250, Rates: windows.Rates{LeastPerS: 0, P10PerS: 0, MedianPerS: 200_000, MostPerS: 800_000},
		BelowSlowShare: 0.375, BelowFifthShare: 0.25, MeanOfP50: rounded((2.5+1e6/199_999)/2, 3),
		Beside: neighbour.name, BesideCPUs: 0.5,
		PerSWindows: []float64{400_000, 40_000, 800_000, 360_000, 0, 400_000, 199_996, 200_000},
	}
	if got := *row.Sustained; !reflect.DeepEqual(got, want) {
		t.Errorf("it is %+v, not %+v", got, want)
	}
	// The mean is that of all time, not of samples.
	if row.MeanNS != int64(1e9/row.PerS) || row.Calls != 599_999 {
		t.Errorf("%d calls of %d ns, %v a second", row.Calls, row.MeanNS, row.PerS)
	}
}

// The mean of a call of several callers is that of each; rounds that are shorter than a
// window have none.
func TestWindowsOfSeveralCallers(t *testing.T) {
	several := windowed(nil, []uint64{100_000, 100_000, 100_000, 100_000})
	several.plan.callers = 4
	row := several.reduced()
	if row.MeanNS != 10_000 || row.Sustained.MeanOfP50 != 10 {
		t.Errorf("%v calls/s by 4 callers: a call of %d ns, %v times p50", row.PerS, row.MeanNS, row.Sustained.MeanOfP50)
	}
	plan := several.plan
	if long, short := plan.turn(time.Second), plan.turn(200*time.Millisecond); long.window != plan.window || short.window != 0 {
		t.Errorf("windows of %v in a second, of %v in 200 ms", long.window, short.window)
	}
	brief := windowed(nil, []uint64{1000})
	brief.rounds[0].windows = nil
	if row := brief.reduced(); row.Sustained != nil {
		t.Errorf("without windows it is %+v", row.Sustained)
	}
}

// Who may not have real-time priority has no such rows, and is told why; what fails
// otherwise is a failure.
func TestCompanyThatIsForbiddenIsLeftOut(t *testing.T) {
	ending := func(code int, mayBeForbidden bool) error {
		c := &company{"company", func(tools) []string { return []string{"sh", "-c", fmt.Sprintf("echo so it is >&2; exit %d", code)} }, mayBeForbidden}
		_, err := c.start(tools{})
		return err
	}
	if err := ending(noPermission, true); !errors.Is(err, errNotHere) || !strings.Contains(err.Error(), "so it is") {
		t.Errorf("forbidden: %v", err)
	}
	for _, err := range []error{ending(1, true), ending(noPermission, false)} {
		if err == nil || errors.Is(err, errNotHere) {
			t.Errorf("it fails: %v", err)
		}
	}
}

// heard waits until company has used so much CPU and returns its share of CPUs.
func heard(t *testing.T, p *process.Process, used time.Duration) float64 {
	t.Helper()
	w, err := watchBeside(p)
	check(t, err)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		now, err := cpuOf(p)
		check(t, err)
		if now-w.before >= used {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it used %v of CPU in 30 s, not %v", now-w.before, used)
		}
	}
	share, err := w.share()
	check(t, err)
	return share
}

func TestNeighbourBurnsACPU(t *testing.T) {
	p, err := neighbour.start(tools{})
	check(t, err)
	defer p.Stop()
	if share := heard(t, p, 50*time.Millisecond); share <= 0 || share > 1.1 {
		t.Errorf("it had %v CPUs", share)
	}
}

// The played host takes a tenth of each CPU, whoever else wants them; or says that it
// may not.
func TestPlayedHostTakesATenth(t *testing.T) {
	root := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(root, "build/benchmarks"), 0o700))
	of := tools{root: root}
	compile(t, of.built("played_host"), "callers/played_host.c", "callers/protocol.c", "-pthread")
	p, err := playedHost.start(of)
	if errors.Is(err, errNotHere) {
		return
	}
	check(t, err)
	defer p.Stop()
	cpus := float64(runtime.NumCPU())
	// The times are the same in each run: with fewer of them this is far from a tenth.
	if share := heard(t, p, time.Duration(cpus*float64(100*time.Millisecond))) / cpus; share < 0.05 || share > 0.2 {
		t.Errorf("of each CPU it takes a share of %v", share)
	}
}
