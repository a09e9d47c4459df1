package load_test

import (
	"context"
	"errors"
	"slices"
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

// What a slow function leaves undone at a rate is told: calls that were due are made
// or missed.
func TestCallsThatWereDueAreMissed(t *testing.T) {
	const (
		perSecond = 40
		length    = 500 * time.Millisecond
	)
	slow := func(context.Context) error { time.Sleep(80 * time.Millisecond); return nil }
	r := load.Run(t.Context(), []load.Call{slow, slow}, perSecond, length)
	if due := uint64(perSecond * length / time.Second); r.Missed == 0 || r.Latency.Count()+r.Missed != due {
		t.Errorf("%d made and %d missed of %d that were due", r.Latency.Count(), r.Missed, due)
	}
	if r := load.Run(t.Context(), []load.Call{slow}, 0, length); r.Missed != 0 {
		t.Errorf("%d missed where none was due", r.Missed)
	}
}

// What was not yet due when a run is cancelled is not missed.
func TestCancelledRunMissesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	call := func(context.Context) error {
		if calls++; calls == 3 {
			cancel()
		}
		return nil
	}
	if r := load.Run(ctx, []load.Call{call}, 10, time.Hour); r.Missed > 1 || calls != 3 {
		t.Errorf("%d missed after %d calls", r.Missed, calls)
	}
}

// Callers call once, so many at a time.
func TestOnce(t *testing.T) {
	const callers, atATime = 20, 4
	var calls, running, tooMany atomic.Int64
	together := make(chan struct{})
	call := func(context.Context) error {
		if calls.Add(1) == atATime {
			close(together)
		}
		if running.Add(1) > atATime {
			tooMany.Add(1)
		}
		<-together // the first wait for each other
		running.Add(-1)
		return nil
	}
	if err := load.Once(t.Context(), slices.Repeat([]load.Call{call}, callers), atATime); err != nil {
		t.Fatal(err)
	}
	if calls.Load() != callers || tooMany.Load() > 0 {
		t.Errorf("%d calls, %d of them more than %d at a time", calls.Load(), tooMany.Load(), atATime)
	}
}

func TestOnceEndsWithTheFirstError(t *testing.T) {
	calls := 0
	call := func(context.Context) error {
		if calls++; calls == 2 {
			return errOdd
		}
		return nil
	}
	if err := load.Once(t.Context(), []load.Call{call, call, call, call}, 1); !errors.Is(err, errOdd) || calls > 3 {
		t.Errorf("error %v after %d calls", err, calls)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := load.Once(ended, []load.Call{call}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestAdd(t *testing.T) {
	call := func(context.Context) error { return nil }
	fails := func(context.Context) error { return errOdd }
	first := load.Run(t.Context(), []load.Call{call}, 0, 10*time.Millisecond)
	second := load.Run(t.Context(), []load.Call{fails}, 0, 10*time.Millisecond)
	both := first
	both.Latency = load.Histogram{}
	both.Latency.Merge(&first.Latency)
	both.Add(&second)
	if both.Latency.Count() != first.Latency.Count() || both.Failed != second.Failed || !errors.Is(both.Failure, errOdd) ||
		both.Elapsed != first.Elapsed+second.Elapsed {
		t.Errorf("got %+v", both)
	}
}
