package load_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
)

var errOdd = errors.New("odd")

func TestRunCallsUntilTheEnd(t *testing.T) {
	var calls atomic.Uint64
	call := func(context.Context) error {
		if calls.Add(1)%2 == 1 {
			return errOdd
		}
		return nil
	}
	const length = 50 * time.Millisecond
	r := load.Run(t.Context(), []load.Call{call, call, call}, 0, length)
	if made := calls.Load(); r.Latency.Count()+r.Failed != made || r.Failed != (made+1)/2 {
		t.Errorf("%d calls and %d failed, of %d", r.Latency.Count(), r.Failed, made)
	}
	if !errors.Is(r.Failure, errOdd) || r.Elapsed < length {
		t.Errorf("failure %v, elapsed %v", r.Failure, r.Elapsed)
	}
}

// One call that stalls delays others, and all of these tell it.
func TestStallCountsForEveryCallItHeldUp(t *testing.T) {
	const (
		perSecond = 200
		stall     = 200 * time.Millisecond
	)
	calls := 0
	call := func(context.Context) error {
		if calls++; calls == 5 {
			time.Sleep(stall)
		}
		return nil
	}
	r := load.Run(t.Context(), []load.Call{call}, perSecond, time.Second)
	// Calls were due every 5 ms: about half of those during the stall waited for more
	// than half of it.
	const held = 40
	if r.Latency.Count() < held || r.Latency.Max() < stall {
		t.Fatalf("%d calls, at most %v", r.Latency.Count(), r.Latency.Max())
	}
	share := 1 - float64(held)/3/float64(r.Latency.Count())
	if got := r.Latency.Percentile(share); got < stall/3 {
		t.Errorf("p%.1f is %v", 100*share, got)
	}
}

// The rate is that of all callers together.
func TestRateIsShared(t *testing.T) {
	var calls atomic.Int64
	call := func(context.Context) error { calls.Add(1); return nil }
	load.Run(t.Context(), []load.Call{call, call, call, call}, 100, 500*time.Millisecond)
	if made := calls.Load(); made > 51 || made < 5 {
		t.Errorf("%d calls where 50 were due", made)
	}
}

func TestCancelEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	call := func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	r := load.Run(ctx, []load.Call{call}, 0, time.Hour)
	if r.Failed != 0 || r.Latency.Count() != 0 {
		t.Errorf("%d failed, %d did not", r.Failed, r.Latency.Count())
	}
}
