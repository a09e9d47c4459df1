package client

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"
)

const (
	// The standby rests after this many replies in a row that left no call
	// waiting: handing the role to and fro would cost callers that overlap more
	// than it saves.
	loneRepliesMin = 16
	// How long nobody reads before the standby does; it happens after one to two
	// ticks. Meanwhile PING, DRAIN and the connection's end go unnoticed.
	idleTick = 100 * time.Millisecond
)

// A role says who reads the connection. Waking another goroutine for every
// reply would cost a lone caller more than the call, so a caller that is alone
// reads for itself. There are three states:
//
//   - The standby, which is the connection's goroutine, reads. So it is at first,
//     while calls overlap, while nothing is called, after a write failed, and
//     always where the socket is not local.
//   - A caller reads, and handles what comes for others too, until its own call
//     has ended or given up. The standby rests. Whoever ends that call but the
//     reader itself must interrupt the read afterwards.
//   - Nobody reads: between the calls of a lone caller, and for two ticks of the
//     watch at most. A call that cannot be sent then, because the connection has
//     ended, is made on another one, as if the end had been seen at once.
//
// The input belongs to whoever has the role. All is guarded by connection.mu.
type role struct {
	resting bool
	leader  *call
	// interrupted: the read deadline has passed by intention. boundUntil is what
	// it should be, zero for none. The first may be read without the lock, by a
	// caller that spins.
	interrupted atomic.Bool
	boundUntil  time.Time
	// recall wakes the standby. failure is how a caller's reading ended.
	recall chan struct{}
	// unwatch ends the leader's watch over its context, and is the leader's.
	unwatch func() bool
	failure error
	// The watch recalls the standby when no call came for a tick.
	watch   *time.Timer
	watched bool
	seenID  uint64
}

// claim gives the role to the caller of r if nobody reads and r is alone, and
// recalls the standby if it is not. idle reports that nobody read: then the end
// of the connection may have gone unnoticed. Preconditions: c.mu is held, r is
// in the table and not sent.
func (c *connection) claim(r *call) (leads, idle bool) {
	if !c.role.resting || c.role.leader != nil {
		return false, false
	}
	if c.pending.used > 1 {
		c.recallStandby()
		return false, true
	}
	c.role.leader = r
	if c.memory != nil {
		c.memory.waiter.Prepare(r.startNs)
	}
	return true, true
}

// unclaim gives the role of r, which has to do something else first, to the
// standby. Preconditions: c.mu is held.
func (c *connection) unclaim(r *call) {
	if r.leads {
		r.leads, c.role.leader = false, nil
		c.recallStandby()
	}
}

// recallStandby makes sure that somebody reads, and reports whether nobody did.
// Preconditions: c.mu is held.
func (c *connection) recallStandby() (idle bool) {
	if !c.role.resting || c.role.leader != nil {
		return false
	}
	c.role.resting = false
	c.role.recall <- struct{}{}
	return true
}

// lead reads until the call is to be woken. When the connection ends, the
// standby finishes the call.
func (c *connection) lead(ctx context.Context, r *call) wake {
	if m := c.memory; m != nil {
		m.context, m.idleNs = ctx, r.idleSince()
	}
	why, err := c.readFor(ctx, r)
	if c.role.unwatch != nil {
		c.role.unwatch()
		c.role.unwatch = nil
	}
	c.handOver(err)
	if err != nil {
		return r.awaitWake(ctx)
	}
	return why
}

func (c *connection) readFor(ctx context.Context, r *call) (wake, error) {
	for {
		select {
		case why := <-r.wakes:
			return why, nil
		default:
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
			return 0, err
		}
	}
}

// watchContext makes the end of ctx interrupt the caller that reads, before it
// sleeps.
func (c *connection) watchContext(ctx context.Context) {
	if c.role.unwatch == nil && ctx.Done() != nil {
		c.role.unwatch = context.AfterFunc(ctx, c.interruptLeader)
	}
}

// idleSince returns since when the caller waits for its reply, 0 where that is
// to be read from the clock.
func (r *call) idleSince() uint64 {
	if r.inMemory && len(r.payload) <= quickPayloadBytesMax {
		return r.startNs
	}
	return 0
}

// handOver ends a caller's reading: the standby goes on where there is more to
// come.
func (c *connection) handOver(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.liftInterruptLocked()
	c.role.leader, c.role.failure = nil, err
	if c.memory != nil {
		c.memory.context, c.memory.idleNs = nil, 0
	}
	if err != nil || !c.quiet() || !c.memory.leave() {
		c.recallStandby()
		return
	}
	c.watchIdle()
}

// quiet reports whether nothing is to be read for a while. Preconditions: c.mu
// is held, and the role.
func (c *connection) quiet() bool {
	return !c.leaving && c.pending.used == 0 && len(c.pings.waiting) == 0 && !c.input.partial()
}

// rest is called by the standby when callers have been alone lately. It returns
// when the standby has the role again, and has it at once where others wait.
func (c *connection) rest() error {
	c.mu.Lock()
	if !c.quiet() || !c.memory.settle() {
		c.mu.Unlock()
		return nil
	}
	c.role.resting = true
	c.watchIdle()
	c.mu.Unlock()
	<-c.role.recall
	if c.memory != nil {
		c.memory.end.Awake()
	}
	return c.role.failure
}

// interruptLeader ends the read of a caller that may have reason to stop; one
// that has none goes on.
func (c *connection) interruptLeader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interruptLeaderLocked()
}

func (c *connection) interruptLeaderLocked() {
	if c.role.leader != nil {
		c.role.interrupted.Store(true)
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
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
		_ = c.conn.SetReadDeadline(c.role.boundUntil)
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
	return c.conn.SetReadDeadline(until)
}

// watchIdle starts the watch, which goes on by itself. Preconditions: c.mu is
// held.
func (c *connection) watchIdle() {
	if c.role.watched {
		return
	}
	c.role.watched, c.role.seenID = true, c.pending.lastID
	if c.role.watch == nil {
		c.role.watch = time.AfterFunc(idleTick, c.lookForIdle)
		return
	}
	c.role.watch.Reset(idleTick)
}

// lookForIdle is the watch. When somebody reads it runs out: whoever stops
// starts it again.
func (c *connection) lookForIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.role.watched = false
	if !c.role.resting || c.role.leader != nil {
		return
	}
	if c.pending.lastID == c.role.seenID {
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
