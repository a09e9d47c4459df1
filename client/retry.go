package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// firstPause is the mean pause before the second attempt; each later one is
// twice as long.
const firstPause = time.Millisecond

// retry makes attempts until one succeeds or may not be repeated: only what was
// not executed because of the connection, because the server is stopping, or
// because it has another description of the function than this client had.
func (c *Client) retry(ctx context.Context, r *call) *status.Error {
	r.startNs = c.clock.Ns()
	r.deadlineNs = c.deadline(ctx, r.startNs)
	if ctx.Err() != nil {
		return endOfWaiting(ctx, "before the call began").With(status.OutcomeNotExecuted)
	}
	for count := 1; ; count++ {
		failure := c.attempt(ctx, r)
		if failure == nil {
			return nil
		}
		outdated := r.outdated(failure)
		if count >= c.config.attemptsMax || !outdated && !repeatable(failure) {
			return failure
		}
		if !outdated && !c.pause(ctx, r, count) {
			return failure
		}
	}
}

// attempt sends once, on the first connection that takes it.
func (c *Client) attempt(ctx context.Context, r *call) *status.Error {
	for {
		connection, failure := c.connect(ctx, r)
		if failure != nil {
			return failure
		}
		exchange := connection.exchange
		if r.frameType == wire.Ping {
			exchange = connection.ping
		}
		if failure, usable := exchange(ctx, r); usable {
			return failure
		}
	}
}

func repeatable(failure *status.Error) bool {
	return failure.Code == status.Unavailable && failure.Outcome == status.OutcomeNotExecuted
}

// pause waits for a random time. It returns false when the deadline would pass
// or the caller gives up.
func (c *Client) pause(ctx context.Context, r *call, count int) bool {
	mean := firstPause << (count - 1)
	length := mean/2 + rand.N(mean)
	if length >= c.remaining(r.deadlineNs) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}

// asError keeps a nil failure from becoming an error that is not nil.
func asError(failure *status.Error) error {
	if failure == nil {
		return nil
	}
	return failure
}
