// Package load lets callers call for a while and measures every call.
package load

import (
	"context"
	"sync"
	"time"
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
	Elapsed time.Duration
}

// Run lets all callers call until length has passed or ctx ends, each one call
// after the other. With perSecond above 0, that many calls of all callers together are
// due at fixed times: a call that the one before it held up counts from when it was due,
// so that a stall shows in every call that it delayed. Otherwise they call as fast
// as they can.
func Run(ctx context.Context, callers []Call, perSecond float64, length time.Duration) Result {
	begin := time.Now()
	results := make([]Result, len(callers))
	var running sync.WaitGroup
	for i, call := range callers {
		c := caller{call: call, until: begin.Add(length)}
		if perSecond > 0 {
			// The callers' turns are spread evenly.
			c.period = time.Duration(float64(len(callers)) / perSecond * float64(time.Second))
			c.due = begin.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		}
		running.Go(func() { results[i] = c.run(ctx) })
	}
	running.Wait()
	all := Result{Elapsed: time.Since(begin)}
	for i := range results {
		all.Latency.Merge(&results[i].Latency)
		all.Failed += results[i].Failed
		if all.Failure == nil {
			all.Failure = results[i].Failure
		}
	}
	return all
}

// A caller makes one call after the other.
type caller struct {
	call   Call
	until  time.Time
	due    time.Time     // of the next call
	period time.Duration // 0: as fast as it can
}

func (c *caller) run(ctx context.Context) (r Result) {
	for ctx.Err() == nil {
		begin := time.Now()
		if c.period > 0 {
			begin = c.awaitTurn(ctx)
		}
		if !begin.Before(c.until) {
			break
		}
		err := c.call(ctx)
		end := time.Now()
		switch {
		case err == nil:
			r.Latency.Add(end.Sub(begin))
		case ctx.Err() != nil: // who ends the run has cancelled it
		default:
			r.Failed++
			if r.Failure == nil {
				r.Failure = err
			}
		}
		if !end.Before(c.until) {
			break
		}
	}
	return r
}

// awaitTurn waits until a call is due and returns from when it is to be timed.
func (c *caller) awaitTurn(ctx context.Context) time.Time {
	due := c.due
	c.due = due.Add(c.period)
	if !time.Now().Before(due) {
		return due
	}
	sleepUntil(ctx, earlier(due, c.until))
	return time.Now()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
