package client

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/status"
)

const (
	// The standby rests after so many replies in a row after which no call was waiting.
	// When calls overlap, passing the role back and forth would cost more than it
	// saves.
	loneRepliesMin = 16
	// For so long nobody reads before the standby does; that is noticed after one to
	// two ticks. Meanwhile PING, DRAIN and the end of the connection go unnoticed.
	idleTick = 100 * time.Millisecond
)

// A role says who reads the connection. Waking another goroutine for every reply would
// cost a lone caller more than the call itself, so a caller that is alone reads for
// itself. There are three states:
//
//   - The standby, which is the connection's own goroutine, reads. It does so at first, while
//     calls overlap, while there are no calls, after a write has failed, and always if the
//     carrier is neither a local socket nor a transport.QuietCarrier.
//   - A caller reads, and handles what arrives for others too, until its own call has ended or
//     was given up. The standby rests. If another goroutine ends that call, it must interrupt the read
//     afterwards.
//   - Nobody reads. This is so between the calls of a lone caller, for two ticks of the watch at
//     most. If the connection has ended by then, a call that cannot be sent is made on another
//     connection, as if the end had been noticed at once. Over a network such a call can be
//     sent, so its caller looks first: see nothingCame.
//
// The goroutine that reads is said to have the role; the reader belongs to it.
type role struct {
	resting bool
	leader  *call
	// interrupted means that the read deadline was set to a moment in the past in order
	// to end the read. boundUntil is the deadline that should be set, or zero for none.
	// A caller that spins may read interrupted without the lock.
	interrupted atomic.Bool
	boundUntil  time.Time
	// recall wakes the standby. failure is the error with which a caller's reading
	// ended.
	recall  chan struct{}
	failure error
	// The watch recalls the standby if no call was made for a tick.
	watch   *time.Timer
	watched bool
	seenID  uint64
}

// claim gives the role to the caller of r if nobody reads and r is the only call, and
// recalls the standby if there are others. idle means that nobody was reading, so that
// the connection may have ended unnoticed. Preconditions: c.mu is held, r is in the
// table and not sent.
func (c *connection) claim(r *call) (leads, idle bool) {
	if !c.role.resting || c.role.leader != nil {
		return false, false
	}
	if c.calls.used > 1 {
		c.recallStandby()
		return false, true
	}
	c.role.leader = r
	if c.reader.memory != nil {
		c.reader.memory.waiter.Prepare(r.startNs)
	}
	return true, true
}

// rests reports whether the standby may leave the reading to callers.
func (c *connection) rests() bool { return c.local || c.looks != nil }

// nothingCame reports whether somebody reads, or nothing has come since nobody does, as far as
// that can be seen. Otherwise the connection may have ended, and a request would be taken
// although nobody is there. Preconditions: c.mu is held.
func (c *connection) nothingCame() bool {
	if !c.role.resting || c.role.leader != nil {
		return true
	}
	quiet, err := c.looks.Quiet()
	return quiet && err == nil
}

// submitAfterRead is submit for a call before which something has come that nobody has read.
// It lets the standby read that first, and knows by a PING that it has.
func (c *connection) submitAfterRead(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	if failure, usable := c.ping(ctx, r); failure != nil || !usable {
		return failure, usable
	}
	r.header.Deadline = c.deadlineField(r)
	return c.submit(ctx, r)
}

// unclaim gives the role to the standby, because the caller of r has something else to
// do first. Preconditions: c.mu is held.
func (c *connection) unclaim(r *call) {
	if r.leads {
		r.leads, c.role.leader = false, nil
		c.recallStandby()
	}
}

// recallStandby makes sure that somebody reads. It reports whether nobody did.
// Preconditions: c.mu is held.
func (c *connection) recallStandby() (idle bool) {
	if !c.role.resting || c.role.leader != nil {
		return false
	}
	c.role.resting = false
	c.role.recall <- struct{}{}
	return true
}

// lead reads until the call is to be woken. If the connection ends, the standby
// finishes the call.
func (c *connection) lead(ctx context.Context, r *call) wake {
	if m := c.reader.memory; m != nil {
		m.context, m.idleNs = ctx, r.idleSince()
	}
	c.reader.own = r
	why, err := c.readFor(ctx, r)
	c.reader.own = nil
	if c.reader.unwatch != nil {
		c.reader.unwatch()
		c.reader.unwatch = nil
	}
	c.handOver(err)
	if err != nil && !r.answered {
		return r.awaitWake(ctx)
	}
	return why
}

func (c *connection) readFor(ctx context.Context, r *call) (wake, error) {
	for !r.answered {
		if len(r.wakes) > 0 { // nobody else receives from it
			return <-r.wakes, nil
		}
		if ctx.Err() != nil {
			return wakeExpired, nil
		}
		sleep, err := c.lookForMemory()
		if sleep && err == nil {
			c.watchContext(ctx)
			err = c.readAsleep()
		}
		if err == nil {
			err = c.consume()
		} else if errors.Is(err, os.ErrDeadlineExceeded) && c.liftInterrupt() {
			continue
		}
		if err != nil {
			return wakeFinished, err
		}
	}
	return wakeFinished, nil
}

// watchContext makes the end of ctx interrupt the caller that reads. It is called
// before that caller goes to sleep.
func (c *connection) watchContext(ctx context.Context) {
	if c.reader.unwatch == nil && ctx.Done() != nil {
		c.reader.unwatch = context.AfterFunc(ctx, c.interruptLeader)
	}
}

// idleSince returns when the caller began to wait for its reply, or 0 if the clock must
// be read to know.
func (r *call) idleSince() uint64 {
	if r.inMemory && r.payloadBytes() <= quickPayloadBytesMax {
		return r.startNs
	}
	return 0
}

// handOver ends a caller's reading. If there is more to read, the standby goes on.
func (c *connection) handOver(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.liftInterruptLocked()
	c.role.leader, c.role.failure = nil, err
	if c.reader.memory != nil {
		c.reader.memory.context, c.reader.memory.idleNs = nil, 0
	}
	if err != nil || !c.quiet() || !c.reader.memory.leave() {
		c.recallStandby()
		return
	}
	c.watchIdle()
}

// quiet reports whether there is nothing to read for a while. Preconditions: c.mu is
// held, and the caller has the role.
func (c *connection) quiet() bool {
	return !c.leaving && c.calls.used == 0 && len(c.pings.waiting) == 0 && !c.reader.partial()
}

// rest is called by the standby when callers have been alone lately. It returns when
// the standby has the role again, which is at once if other calls wait.
func (c *connection) rest() error {
	c.mu.Lock()
	if !c.quiet() || !c.reader.memory.settle() {
		c.mu.Unlock()
		return nil
	}
	c.role.resting = true
	c.watchIdle()
	c.mu.Unlock()
	<-c.role.recall
	if c.reader.memory != nil {
		c.reader.memory.end.Awake()
	}
	return c.role.failure
}

// interruptLeader ends the read of a caller that may have a reason to stop. A caller
// that has none reads on.
func (c *connection) interruptLeader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interruptLeaderLocked()
}

func (c *connection) interruptLeaderLocked() {
	if c.role.leader != nil {
		c.role.interrupted.Store(true)
		_ = c.carrier.SetReadDeadline(time.Unix(1, 0))
	}
}

func (c *connection) liftInterrupt() (interrupted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.liftInterruptLocked()
}

func (c *connection) liftInterruptLocked() (interrupted bool) {
	interrupted = c.role.interrupted.Load()
	if interrupted {
		c.role.interrupted.Store(false)
		_ = c.carrier.SetReadDeadline(c.role.boundUntil)
	}
	return interrupted
}

// boundRead sets the time at which the read fails.
func (c *connection) boundRead(until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.role.boundUntil = until
	if c.role.interrupted.Load() {
		return nil
	}
	return c.carrier.SetReadDeadline(until)
}

// watchIdle starts the watch, which then goes on by itself. Preconditions: c.mu is
// held.
func (c *connection) watchIdle() {
	if c.role.watched {
		return
	}
	c.role.watched, c.role.seenID = true, c.calls.lastID
	if c.role.watch == nil {
		c.role.watch = time.AfterFunc(idleTick, c.lookForIdle)
		return
	}
	c.role.watch.Reset(idleTick)
}

// lookForIdle is what the watch does at each tick. While somebody reads it lets the
// watch run out: the goroutine that stops reading starts it again.
func (c *connection) lookForIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.role.watched = false
	if !c.role.resting || c.role.leader != nil {
		return
	}
	if c.calls.lastID == c.role.seenID {
		c.recallStandby()
		return
	}
	c.watchIdle()
}

func (c *connection) stopWatch() {
	if c.role.watch != nil {
		c.role.watch.Stop()
	}
}
