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
	// Payloads of at least this size are written from where they lie, instead of being
	// copied into the buffer, if nobody else is writing.
	gatherBytesMin = 16 << 10
	// A caller writes for others this many times at most before a goroutine takes over,
	// because the caller has a deadline of its own.
	flushRoundsMax = 4

	writeTimeout = wire.WriteTimeoutMs * time.Millisecond
)

// A caller that appends a frame while nobody is writing becomes the writer for all
// callers. A writer never blocks: what the socket does not take at once is left to a
// goroutine, which lives until all of it is written.

// flush writes what is pending. Preconditions: the caller is the writer.
func (c *connection) flush() {
	for round := 1; c.takePending(); round++ {
		err := c.carrier.Offer(c.output.writeTry)
		done, failure := c.output.done()
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

// takePending takes what is to be sent next. If there is nothing it returns false, and
// its caller is no longer the writer.
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

// writeInBackground takes over as the writer and waits for the socket.
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

// writeRest writes all of sending. A server that does not take a single byte for
// write_timeout_ms loses the connection.
func (c *connection) writeRest() error {
	defer c.liftWriteBound()
	for {
		if done, err := c.output.done(); done || err != nil {
			return err
		}
		if err := c.carrier.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if err := c.carrier.Offer(c.output.writeWait); err != nil {
			return err
		}
		if c.output.wasRefused() {
			time.Sleep(refusedPause)
		}
	}
}

// writeGathered sends one large request without copying its payload. It waits for the
// socket for as long as the call may last; then it copies the rest and leaves it to a
// goroutine. Preconditions: the caller is the writer and holds gathering, and nothing
// is pending.
func (c *connection) writeGathered(ctx context.Context, r *call) {
	lift := c.boundWrite(ctx, r.deadlineNs)
	sent, err := c.output.writeVector(r.frameParts(r.head))
	lift()
	c.output.setGathered(r.id, r.frameParts(r.head), sent)
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

// boundWrite makes a write end with the call. It returns a function that undoes that.
func (c *connection) boundWrite(ctx context.Context, deadlineNs uint64) (lift func()) {
	limit := min(writeTimeout, c.client.remaining(deadlineNs))
	_ = c.carrier.SetWriteDeadline(time.Now().Add(limit))
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

// interruptWrite and liftWriteBound can only fail on a closed connection, which the
// writer notices anyway.
func (c *connection) interruptWrite() { _ = c.carrier.SetWriteDeadline(time.Unix(1, 0)) }

func (c *connection) liftWriteBound() { _ = c.carrier.SetWriteDeadline(time.Time{}) }

// writeFailed ends sending on this connection. What was sent before may still be
// answered, so the reader goes on until the connection ends. If the server does not
// read, it ends now. On a connection that was left, a write fails because leaving
// interrupts it.
func (c *connection) writeFailed(err error) {
	c.mu.Lock()
	overdue := errors.Is(err, os.ErrDeadlineExceeded) && !c.leaving
	c.leaveLocked()
	c.output.writing = false
	ending := c.survey(&loss{cause: err})
	unsent := c.calls.takeUnsent(ending.takenID)
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

// letOthersAppend yields once, so that callers that were woken together can write
// together.
func letOthersAppend() { runtime.Gosched() }
