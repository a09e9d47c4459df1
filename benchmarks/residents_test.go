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

// What comes before a way is none of its time, and a way that fails says which it is.
func TestOnlyRunsOfAWayAreTimed(t *testing.T) {
	const runs = 10
	prepared := false
	prepare := func() error { prepared = true; time.Sleep(longRun); return nil }
	each, err := way{"quick", prepare, func(n int) error { return nil }}.timed(runs)
	if err != nil || !prepared || each >= float64(longRun)/runs {
		t.Errorf("a run took %.0f ns, %v", each, err)
	}
	failure := errors.New("it fails")
	good, bad := func() error { return nil }, func() error { return failure }
	for _, w := range []way{{"w", bad, nil}, {"w", good, func(int) error { return failure }}} {
		if _, err := w.timed(7); !errors.Is(err, failure) || !strings.HasPrefix(err.Error(), "w, 7 runs") {
			t.Errorf("got %v", err)
		}
	}
}

func TestTheEndOfAProcessIsWaitedFor(t *testing.T) {
	p := exec.Command("cat")
	in, err := p.StdinPipe()
	check(t, err)
	check(t, p.Start())
	for _, test := range []struct {
		timeout time.Duration
		ended   bool
	}{{time.Millisecond, false}, {process.ReadyTimeout, true}} {
		gone, err := endOf(p.Process.Pid)
		check(t, err)
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

// Neither of two always follows the other, and what is uncounted is in no figure.
func TestWaysTakeTurns(t *testing.T) {
	var order string
	taking := func(name string) func(bool) (float64, error) {
		return func(counts bool) (float64, error) {
			if !counts {
				name = strings.ToUpper(name)
			} else {
				name = strings.ToLower(name)
			}
			order += name
			return float64(len(order)), nil
		}
	}
	took, err := inTurns(t.Context(), 2, 1, taking("a"), taking("b"))
	if err != nil || order != "ABbaab" || !slices.Equal(took[0], []float64{4, 5}) || !slices.Equal(took[1], []float64{3, 6}) {
		t.Errorf("order %s, %v, %v", order, took, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := inTurns(ended, 1, 0, taking("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
