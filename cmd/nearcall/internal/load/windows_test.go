package load_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
)

// taking returns a call that takes so long, but the nth takes stall.
func taking(each, stall time.Duration, nth int) load.Call {
	calls := 0
	return func(context.Context) error {
		if calls++; calls == nth {
			time.Sleep(stall)
		} else {
			time.Sleep(each)
		}
		return nil
	}
}

// A stall leaves windows empty, whatever percentiles say. Time is what calls take of it.
func TestCallsAreCountedByWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalls, steady := taking(10*time.Millisecond, 600*time.Millisecond, 30), taking(50*time.Millisecond, 0, 0)
		r := load.Run(t.Context(), []load.Call{stalls, steady}, 0, 1300*time.Millisecond)
		// What ends at an edge is in the later window; the rest of a window is none.
		if want := []uint64{24 + 4, 5 + 5, 0 + 5, 11 + 5, 25 + 5}; !slices.Equal(r.Windows, want) || r.WindowLength != 250*time.Millisecond {
			t.Errorf("in windows of %v there are %v, not %v", r.WindowLength, r.Windows, want)
		}
		again := load.Run(t.Context(), []load.Call{steady}, 0, 250*time.Millisecond)
		r.Add(&again)
		if len(r.Windows) != 6 || r.Windows[5] != 4 {
			t.Errorf("of two runs they are %v", r.Windows)
		}
	})
}

func TestShortRunsAreOneWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := load.Run(t.Context(), []load.Call{taking(9*time.Millisecond, 0, 0)}, 0, 100*time.Millisecond)
		if !slices.Equal(r.Windows, []uint64{11}) || r.WindowLength != 100*time.Millisecond {
			t.Errorf("in windows of %v there are %v", r.WindowLength, r.Windows)
		}
	})
}

// Who is stopped calls no more, which is no slow time.
func TestWindowsEndWhereARunIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		defer cancel()
		r := load.Run(ctx, []load.Call{taking(9*time.Millisecond, 0, 0)}, 0, time.Hour)
		if !slices.Equal(r.Windows, []uint64{27, 28}) {
			t.Errorf("there are %v", r.Windows)
		}
		r = load.Run(ctx, []load.Call{taking(9*time.Millisecond, 0, 0)}, 0, time.Hour)
		if len(r.Windows) != 0 {
			t.Errorf("of a run that never began there are %v", r.Windows)
		}
	})
}

func TestARunOfNoLengthHasNoWindow(t *testing.T) {
	if r := load.Run(t.Context(), []load.Call{taking(0, 0, 0)}, 0, 0); len(r.Windows) != 0 {
		t.Errorf("there are %v", r.Windows)
	}
}
