package client

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const (
	// Payloads from here on are written from where they are instead of being
	// copied into the buffer, when nobody else is writing.
	gatherBytesMin = 16 << 10
	// A caller writes for the others this many times before a goroutine takes
	// over: the caller has a deadline of its own.
	flushRoundsMax = 4

	writeTimeout = wire.WriteTimeoutMs * time.Millisecond
)

// Whoever appends a frame and finds nobody writing becomes the writer for all.
// A writer never blocks: what the socket does not take is left to a goroutine
// that lives until it has.

// flush writes what is pending. Preconditions: the caller is the writer.
func (c *connection) flush() {
	for round := 1; c.takePending(); round++ {
		err := c.output.raw.Write(c.output.writeTry)
		done, failure := c.output.state()
		if err == nil {
			err = failure
		}
		switch {
		case err != nil:
			c.writeFailed(err)
			return
		case !done || round == flushRoundsMax:
			go c.writeInBackground()
			return
		}
	}
}

// takePending takes what is to be sent next. When there is nothing it returns
// false, and the caller is the writer no longer.
func (c *connection) takePending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.output.pending) == 0 || c.output.stopped {
		c.output.writing = false
		return false
	}
	c.output.swap()
	c.offerPlaces()
	return true
}

// writeInBackground goes on as the writer and waits for the socket.
func (c *connection) writeInBackground() {
	for {
		if err := c.writeRest(); err != nil {
			c.writeFailed(err)
			return
		}
		if !c.takePending() {
			return
		}
	}
}

// writeRest writes all of sending. A server that takes not one byte for limit
// write_timeout_ms loses the connection.
func (c *connection) writeRest() error {
	defer c.liftWriteBound()
	for {
		if done, err := c.output.state(); done || err != nil {
			return err
		}
		if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if err := c.output.raw.Write(c.output.writeWait); err != nil {
			return err
		}
		if c.output.wasRefused() {
			time.Sleep(refusedPause)
		}
	}
}

// writeGathered sends one large request without copying its payload. It waits
// for the socket no longer than the call may; then the rest is copied and left
// to a goroutine. Preconditions: the caller is the writer and holds gathering,
// and nothing is pending.
func (c *connection) writeGathered(ctx context.Context, r *call) {
	lift := c.boundWrite(ctx, r.deadlineNs)
	sent, err := c.output.writeVector(c.conn, r.head, r.payload)
	lift()
	c.output.setGathered(r.id, r.head, r.payload, sent)
	c.output.gathering.Unlock()
	switch {
	case err == nil:
		c.flush()
	case errors.Is(err, os.ErrDeadlineExceeded):
		go c.writeInBackground()
	default:
		c.writeFailed(err)
	}
}

// boundWrite lets a write end with the call, and returns what undoes that.
func (c *connection) boundWrite(ctx context.Context, deadlineNs uint64) (lift func()) {
	limit := min(writeTimeout, c.client.remaining(deadlineNs))
	_ = c.conn.SetWriteDeadline(time.Now().Add(limit))
	if ctx.Done() == nil {
		return c.liftWriteBound
	}
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.interruptWrite()
		close(ran)
	})
	return func() {
		if !stop() {
			<-ran
		}
		c.liftWriteBound()
	}
}

// interruptWrite and liftWriteBound fail only on a closed connection, which the
// writer notices anyway.
func (c *connection) interruptWrite() { _ = c.conn.SetWriteDeadline(time.Unix(1, 0)) }

func (c *connection) liftWriteBound() { _ = c.conn.SetWriteDeadline(time.Time{}) }

// writeFailed ends sending on this connection. What was sent may still be
// answered: the reader goes on until the connection ends, which for a server
// that does not read is now. On a connection that was left a write fails because
// leaving interrupts it.
func (c *connection) writeFailed(err error) {
	c.mu.Lock()
	overdue := errors.Is(err, os.ErrDeadlineExceeded) && !c.leaving
	c.leaveLocked()
	c.output.writing = false
	ending := c.survey(&loss{cause: err})
	unsent := c.pending.takeUnsent(ending.takenID)
	c.mu.Unlock()
	for _, r := range unsent {
		r.unsent = true
		r.finish(ending.failure(status.OutcomeNotExecuted))
	}
	c.interruptLeader()
	if overdue {
		c.close(&loss{cause: errNotReading})
		return
	}
	c.closeIfUnused()
}

// letOthersAppend yields once, so that callers that were woken together write
// together.
func letOthersAppend() { runtime.Gosched() }
