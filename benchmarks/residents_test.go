package main

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/report"
)

const longRun = 50 * time.Millisecond

func TestPublishedWaysAreTaken(t *testing.T) {
	var names []string
	for _, w := range (&residence{}).ways() {
		names = append(names, w.name)
	}
	published := report.PublishedWays()
	slices.Sort(names)
	slices.Sort(published)
	if !slices.Equal(names, published) {
		t.Errorf("taken are %v, published %v", names, published)
	}
}

// What comes before a way is none of its time, and one turn that took long is none of
// its median.
func TestWaysTakeTurnsAndOnlyTheirRunsAreTimed(t *testing.T) {
	const runs = 10
	var order []string
	prepared := 0
	named := func(name string, run func(turn int)) way {
		turn := 0
		return way{name, func() error { prepared++; time.Sleep(longRun); return nil }, func(n int) error {
			if turn++; prepared != len(order)+1 || n != runs {
				t.Errorf("%d runs after %d of %d ways were prepared", n, prepared, len(order)+1)
			}
			order = append(order, name)
			run(turn)
			return nil
		}}
	}
	quick := named("quick", func(turn int) {
		if turn == 2 {
			time.Sleep(longRun)
		}
	})
	slow := named("slow", func(int) { time.Sleep(longRun) })
	each, err := inTurns(t.Context(), []way{quick, slow}, 3, runs)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Fields("quick slow slow quick quick slow"); !slices.Equal(order, want) {
		t.Errorf("the order was %v, not %v", order, want)
	}
	// A run is a tenth of the way.
	if long := float64(longRun) / runs; each[0] >= long || each[1] < long {
		t.Errorf("a run took %.0f and %.0f ns", each[0], each[1])
	}
}

func TestAWayThatFailsSaysWhich(t *testing.T) {
	failure := errors.New("it fails")
	good, bad := func() error { return nil }, func() error { return failure }
	for _, w := range []way{{"w", bad, func(int) error { return nil }}, {"w", good, func(int) error { return failure }}} {
		if _, err := inTurns(t.Context(), []way{w}, 1, 7); !errors.Is(err, failure) || !strings.HasPrefix(err.Error(), "w, 7 runs") {
			t.Errorf("got %v", err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := inTurns(ended, []way{{"w", good, nil}}, 1, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTheEndOfAProcessIsWaitedFor(t *testing.T) {
	p := exec.Command("cat")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		timeout time.Duration
		ended   bool
	}{{time.Millisecond, false}, {process.ReadyTimeout, true}} {
		gone, err := endOf(p.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if test.ended {
			in.Close()
		}
		if err := gone(test.timeout); (err == nil) != test.ended {
			t.Errorf("waited for %v: %v", test.timeout, err)
		}
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if gone, err := endOf(p.Process.Pid); err != nil || gone(0) != nil {
		t.Errorf("of one that has gone: %v", err)
	}
}

// Neither of two always follows the other, and the first of each counts nothing.
func TestPairsTakeTurns(t *testing.T) {
	var order string
	taking := func(name string) func(bool) (float64, error) {
		return func(counts bool) (float64, error) {
			if !counts {
				order += strings.ToUpper(name)
				return 0, nil
			}
			order += name
			return float64(len(order)), nil
		}
	}
	ones, others, err := inPairs(t.Context(), 2, taking("a"), taking("b"))
	if err != nil || order != "ABbaab" || !slices.Equal(ones, []float64{4, 5}) || !slices.Equal(others, []float64{3, 6}) {
		t.Errorf("order %s, %v and %v, %v", order, ones, others, err)
	}
}
