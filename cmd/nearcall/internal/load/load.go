// Package load lets callers call for a while and measures every call.
package load

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/windows"
)

// A Call makes one call. It is used by one caller only.
type Call func(ctx context.Context) error

// A Result is what callers did.
type Result struct {
	// Latency is that of the calls that succeeded.
	Latency Histogram
	// Failed calls are counted and not timed.
	Failed  uint64
	Failure error // the first that a caller had; nil for none
	// Missed calls were due at the rate that was asked for, and not begun when the run
	// ended: the callers could not keep it.
	Missed  uint64
	Elapsed time.Duration
	// Windows are the calls that succeeded, by the time in which they ended: in whole
	// windows of WindowLength, as many as there were before the run ended.
	Windows      []uint64
	WindowLength time.Duration
}

// Add adds what was done in another run of that length, after this one.
func (r *Result) Add(other *Result) {
	r.addCalls(other)
	r.Elapsed += other.Elapsed
	r.Windows, r.WindowLength = append(r.Windows, other.Windows...), other.WindowLength
}

func (r *Result) addCalls(other *Result) {
	r.Latency.Merge(&other.Latency)
	r.Failed += other.Failed
	r.Missed += other.Missed
	if r.Failure == nil {
		r.Failure = other.Failure
	}
}

// Once lets every caller call once, at most so many at a time. It returns the first
// error of any, after which none begins.
func Once(ctx context.Context, callers []Call, atATime int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first error
	var fail sync.Once
	next := make(chan Call)
	var running sync.WaitGroup
	for range min(atATime, len(callers)) {
		running.Go(func() {
			for call := range next {
				if err := call(ctx); err != nil {
					fail.Do(func() { first = err })
					cancel()
				}
			}
		})
	}
	for i := 0; i < len(callers) && ctx.Err() == nil; i++ {
		next <- callers[i]
	}
	close(next)
	running.Wait()
	return cmp.Or(first, ctx.Err())
}

// Run lets all callers call until length has passed or ctx ends, each one call
// after the other. With perSecond above 0, that many calls of all callers together are
// due at fixed times: a call that the one before it held up counts from when it was due,
// so that a stall shows in every call that it delayed. Otherwise they call as fast
// as they can.
func Run(ctx context.Context, callers []Call, perSecond float64, length time.Duration) Result {
	begin := time.Now()
	results := make([]Result, len(callers))
	window := max(min(windows.Length, length), 1) // not all that is to warm up takes time
	var running sync.WaitGroup
	for i, call := range callers {
		c := caller{call: call, began: begin, until: begin.Add(length), ended: windows.NewCounter(0, length, window)}
		if perSecond > 0 {
			// The callers' turns are spread evenly.
			c.period = time.Duration(float64(len(callers)) / perSecond * float64(time.Second))
			c.due = begin.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		}
		running.Go(func() { results[i] = c.run(ctx) })
	}
	running.Wait()
	all := Result{Elapsed: time.Since(begin), WindowLength: window}
	for i := range results {
		all.addCalls(&results[i])
		all.Windows = windows.AddUp(all.Windows, results[i].Windows)
	}
	// A caller that was stopped made no calls from then on, and not because they were slow.
	all.Windows = all.Windows[:min(len(all.Windows), int(all.Elapsed/window))]
	return all
}

// A caller makes one call after the other.
type caller struct {
	call   Call
	began  time.Time
	until  time.Time
	ended  *windows.Counter
	due    time.Time     // of the next call
	period time.Duration // 0: as fast as it can
}

func (c *caller) run(ctx context.Context) (r Result) {
	for ctx.Err() == nil && time.Now().Before(c.until) {
		begin, called := c.awaitTurn(ctx)
		if !called {
			break
		}
		err := c.call(ctx)
		end := time.Now()
		switch {
		case err == nil:
			r.Latency.Add(end.Sub(begin))
			c.ended.Add(int64(end.Sub(c.began)))
		case ctx.Err() != nil: // the end of the run has cancelled it
		default:
			r.Failed++
			if r.Failure == nil {
				r.Failure = err
			}
		}
	}
	r.Missed, r.Windows = c.missed(time.Now()), c.ended.Counts()
	return r
}

// awaitTurn waits until a call is due and returns from when it is to be timed, or
// false when the run ends first.
func (c *caller) awaitTurn(ctx context.Context) (begin time.Time, called bool) {
	begin = time.Now()
	if c.period == 0 {
		return begin, true
	}
	due := c.due
	if begin.Before(due) {
		sleepUntil(ctx, earlier(due, c.until))
		begin = time.Now()
	} else {
		begin = due
	}
	if ctx.Err() != nil || !begin.Before(c.until) {
		return begin, false
	}
	c.due = due.Add(c.period)
	return begin, true
}

// missed returns how many calls were due until now, or the end, and were not begun.
func (c *caller) missed(now time.Time) uint64 {
	late := earlier(now, c.until).Sub(c.due)
	if c.period == 0 || late <= 0 {
		return 0
	}
	return uint64((late + c.period - 1) / c.period)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
