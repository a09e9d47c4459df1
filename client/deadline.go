package client

import (
	"context"
	"math"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const cancelGrace = wire.CancelGraceMs * time.Millisecond

// deadline returns the clock's time at which a call that has just begun ends.
func (c *core) deadline(ctx context.Context, r *call) uint64 {
	timeout := r.options.timeout
	if at, ok := ctx.Deadline(); ok {
		timeout = max(0, time.Until(at))
	} else if timeout == NoTimeout {
		return noDeadline
	}
	return r.startNs + uint64(timeout)
}

// remaining returns the time until a deadline, or 0 if it has passed.
func (c *core) remaining(deadlineNs uint64) time.Duration {
	now := c.clock.Ns()
	switch {
	case deadlineNs == noDeadline:
		return math.MaxInt64
	case deadlineNs <= now:
		return 0
	}
	return time.Duration(deadlineNs - now)
}

func (c *connection) sharedClock() bool { return c.welcome.Accepted&wire.FeatureSharedClock != 0 }

// deadlineField makes the deadline field of the header. An absolute deadline does not
// depend on when the field is made, so the clock need not be read.
func (c *connection) deadlineField(r *call) uint32 {
	if r.deadlineNs == noDeadline {
		return 0
	}
	if !c.sharedClock() {
		return wire.DeadlineField(0, c.client.remaining(r.deadlineNs), false)
	}
	return wire.DeadlineField((r.startNs+c.clockAheadNs)/uint64(time.Millisecond), time.Duration(r.deadlineNs-r.startNs), true)
}

// An expiry is the one timer for the deadlines of all calls of a connection. It is set
// to the earliest deadline seen. A call that is answered leaves it as it is, so it is
// seldom set anew.
type expiry struct {
	timer *time.Timer
	atNs  uint64 // noDeadline if the timer is not set
}

// armExpiry makes sure that the timer fires no later than at a deadline. Preconditions:
// c.mu is held.
func (c *connection) armExpiry(deadlineNs uint64) {
	if deadlineNs >= c.expiry.atNs {
		return
	}
	c.expiry.atNs = deadlineNs
	after := c.client.remaining(deadlineNs)
	if c.expiry.timer == nil {
		c.expiry.timer = time.AfterFunc(after, c.expire)
		return
	}
	c.expiry.timer.Reset(after)
}

func (c *connection) disarmExpiry() {
	if c.expiry.timer != nil {
		c.expiry.timer.Stop()
	}
}

// expire wakes the calls whose deadlines have passed.
func (c *connection) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expiry.atNs = noDeadline
	now, next := c.client.clock.Ns(), uint64(noDeadline)
	for i := range c.calls.slots {
		r := c.calls.slots[i].call
		switch {
		case r == nil || r.expired:
		case r.deadlineNs <= now:
			r.expired = true
			r.wakes <- wakeExpired
			if r == c.role.leader {
				c.interruptLeaderLocked()
			}
		default:
			next = min(next, r.deadlineNs)
		}
	}
	c.armExpiry(next)
}

// wait waits until the call ends.
func (c *connection) wait(ctx context.Context, r *call) *status.Error {
	var why wake
	if r.leads {
		why = c.lead(ctx, r)
	} else {
		why = r.awaitWake(ctx)
	}
	if why == wakeFinished {
		return r.failure
	}
	return c.giveUp(ctx, r)
}

func (r *call) awaitWake(ctx context.Context) wake {
	done := ctx.Done()
	if done == nil {
		return <-r.wakes
	}
	select {
	case why := <-r.wakes:
		return why
	case <-done:
		return wakeExpired
	}
}

// giveUp ends a call whose deadline has passed or whose context has ended. A request of
// which nothing was sent is withdrawn. Any other is cancelled, and the server has
// cancel_grace_ms to say that it has not started it.
func (c *connection) giveUp(ctx context.Context, r *call) *status.Error {
	failure := endOfWaiting(ctx, "while waiting for the reply")
	c.mu.Lock()
	if c.calls.waitsFor(r.id) != r {
		c.mu.Unlock()
		return r.awaitFinish()
	}
	r.expired = true
	if !r.inMemory && c.output.withdraw(r.id) {
		c.calls.take(r.id)
		c.offerPlaces()
		c.mu.Unlock()
		c.closeIfUnused()
		return failure.With(status.OutcomeNotExecuted)
	}
	_, partial, arriving := c.partial.tells(r.id, c.calls.used == 1)
	writer := c.cancelLocked(r)
	c.mu.Unlock()
	if writer {
		c.flush()
	}
	outcome := c.awaitGrace(r, failure.Code)
	if arriving && outcome == status.OutcomeUnknown {
		outcome = partial
	}
	return failure.With(outcome)
}

// awaitFinish waits for the reader, which has taken the call out of the table and will
// finish it.
func (r *call) awaitFinish() *status.Error {
	for <-r.wakes != wakeFinished {
	}
	return r.failure
}

// awaitGrace waits for what the server says about a call that was cancelled.
func (c *connection) awaitGrace(r *call, code status.Code) status.Outcome {
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	for {
		select {
		case why := <-r.wakes:
			if why == wakeFinished {
				return outcomeInGrace(r.failure)
			}
		case <-timer.C:
			return c.abandon(r, code)
		}
	}
}

// outcomeInGrace returns the outcome of a call whose answer came within the grace. The
// deadline is final, so a result that comes after it does not count; only "not
// executed" is worth telling.
func outcomeInGrace(failure *status.Error) status.Outcome {
	if failure != nil && (failure.Outcome == status.OutcomeNotExecuted || failure.Outcome == status.OutcomeExecutedResultLost) {
		return failure.Outcome
	}
	return status.OutcomeUnknown
}

// abandon gives up a call that got no answer in time, and returns its outcome.
func (c *connection) abandon(r *call, code status.Code) status.Outcome {
	c.mu.Lock()
	if !c.calls.giveUp(r.id) {
		c.mu.Unlock()
		return outcomeInGrace(r.awaitFinish())
	}
	outcome := c.outcomeOfAbandoned(r, code)
	c.mu.Unlock()
	r.awaitReader()
	c.closeIfUnused()
	return outcome
}

// awaitReader waits while the reader copies a part of the reply.
func (r *call) awaitReader() {
	r.replyMu.Lock()
	defer r.replyMu.Unlock()
}

// outcomeOfAbandoned returns the outcome of a call without an answer. Its start mark
// may say that the function has run. A server can start only what it has read whole,
// and on a shared clock it starts nothing whose deadline has passed. The rest of a
// request that was begun must still be sent if other calls wait for their replies;
// otherwise the connection is left, and the rest is never sent.
func (c *connection) outcomeOfAbandoned(r *call, code status.Code) status.Outcome {
	if _, partial, arriving := c.partial.tells(r.id, c.calls.used == 1); arriving {
		return partial
	}
	if r.inMemory || r.id <= c.takenID() {
		return c.marks.outcomeOf(r.id, false)
	}
	if c.sharedClock() && code == status.DeadlineExceeded && c.client.remaining(r.deadlineNs) == 0 {
		return status.OutcomeNotExecuted
	}
	if c.calls.waiting > 0 {
		return status.OutcomeUnknown
	}
	c.leaveLocked()
	if r.id <= c.takenID() {
		return status.OutcomeUnknown
	}
	return status.OutcomeNotExecuted
}
