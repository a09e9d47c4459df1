package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nearcall/nearcall/status"
)

// retry makes attempts until one succeeds or may not be repeated.
func (c *core) retry(ctx context.Context, r *call) *status.Error {
	if r.options.failure != nil {
		failure := *r.options.failure
		return &failure
	}
	r.startNs = c.clock.Ns()
	r.deadlineNs = c.deadline(ctx, r)
	if r.intercepted {
		r.deadlineNs = min(r.deadlineNs, r.latestNs)
	}
	if ctx.Err() != nil {
		return endOfWaiting(ctx, "before the call began").With(status.OutcomeNotExecuted)
	}
	former := status.OutcomeNotExecuted
	for count := 1; ; count++ {
		failure := c.attempt(ctx, r, count)
		if failure == nil {
			return nil
		}
		failure = c.ask(ctx, r, failure)
		outdated := r.outdated(failure)
		if !r.mayRepeat(failure, count, outdated) || !outdated && !c.pause(ctx, r, count) {
			return withFormer(failure, former)
		}
		former = max(former, failure.Outcome)
		r.metadata = nil // what was answered before is no answer any more
		c.counts.retries.Add(1)
		if r.observed != nil {
			r.observeRetry(ctx, failure)
		}
	}
}

// mayRepeat decides whether there is another attempt after so many. What was not executed
// because of the connection, because the server is stopping, or because it has another
// description of the function than this client had, may be sent again; what perhaps was
// executed only where caller and server allow that.
func (r *call) mayRepeat(failure *status.Error, count int, outdated bool) bool {
	if r.options.waitForReady && repeatable(failure) {
		return true
	}
	if count >= r.options.attemptsMax {
		return false
	}
	return outdated || repeatable(failure) || r.options.retryUnknown && lost(failure)
}

// withFormer makes the outcome of the last attempt that of the call: an attempt that was
// not executed says nothing about those before it.
func withFormer(failure *status.Error, former status.Outcome) *status.Error {
	if failure.Outcome == status.OutcomeNotExecuted && former != status.OutcomeNotExecuted {
		return failure.With(former)
	}
	return failure
}

// attempt sends the call once, on the first connection that takes it. count is the number of
// the attempt.
func (c *core) attempt(ctx context.Context, r *call, count int) *status.Error {
	d := c.directions.of(r)
	if d == nil {
		return c.attemptHere(ctx, r, count)
	}
	r.at, r.spills = nil, false
	nowNs := r.startNs
	if count > 1 { // the call may have waited for long since it began
		nowNs = c.clock.Ns()
	}
	direct, ended := c.directions.follow(ctx, r, d, nowNs)
	if ended {
		return direct
	}
	failure := c.attemptHere(ctx, r, count)
	if failure != nil && direct != nil && failure.Message != direct.Message {
		said := *failure
		said.Message += "\nwhere a server had directed it: " + direct.Message
		return &said
	}
	return failure
}

// attemptHere is attempt without regard to directions.
func (c *core) attemptHere(ctx context.Context, r *call, count int) *status.Error {
	if c.route != nil {
		return c.route.attempt(ctx, r, count)
	}
	for {
		connection, failure := c.only.connect(ctx, r.deadlineNs)
		if failure != nil {
			return failure
		}
		if failure, usable := connection.try(ctx, r); usable {
			return failure
		}
	}
}

// reach returns a connection to the server, which the call may use or not.
func (c *core) reach(ctx context.Context, r *call) (*connection, *status.Error) {
	if c.route != nil {
		return c.route.reach(ctx, r)
	}
	return c.only.connect(ctx, r.deadlineNs)
}

func repeatable(failure *status.Error) bool {
	return failure.Code == status.Unavailable && failure.Outcome == status.OutcomeNotExecuted
}

// lost reports whether the connection was lost when the function may have run.
func lost(failure *status.Error) bool {
	return failure.Code == status.Unavailable &&
		(failure.Outcome == status.OutcomeUnknown || failure.Outcome == status.OutcomeExecutedResultLost)
}

// pauseLeast is the shortest pause that is worth making before the deadline.
const pauseLeast = time.Millisecond

// pause waits for a random time. It returns false when the deadline would pass
// or the caller gives up. One that waits for a server to be ready makes shorter pauses
// towards its deadline.
func (c *core) pause(ctx context.Context, r *call, count int) bool {
	remaining := c.remaining(r.deadlineNs)
	length := r.options.pauseAfter(count)
	if r.options.waitForReady && remaining > pauseLeast {
		length = min(length, remaining-remaining/4)
	}
	if length >= remaining {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}

// pauseAfter draws the pause after so many attempts: half to one and a half times the
// mean, so that callers that failed together do not come back together.
func (o *callOptions) pauseAfter(count int) time.Duration {
	mean := o.backoffFirst
	for ; count > 1 && mean < o.backoffMost; count-- {
		mean *= 2
	}
	mean = min(mean, o.backoffMost)
	return mean/2 + rand.N(mean)
}

// asError keeps a nil failure from becoming an error that is not nil.
func asError(failure *status.Error) error {
	if failure == nil {
		return nil
	}
	return failure
}
