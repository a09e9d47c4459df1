package channel

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/pipe"
)

// endGrace is how long a channel that was ended is read on, for answers that were
// written before.
const endGrace = 10 * time.Millisecond

// A Channel is one end. One goroutine receives; sends are serialised by whoever
// calls. No descriptors travel with its bytes: frames carry what stands for them.
type Channel struct {
	pipe  *pipe.Conn
	ended atomic.Bool
	// deadline is held to set the one for reading, which End has the last word on.
	deadline sync.Mutex
	frame    []byte // that Finish sends
}

// Open returns a channel over a pipe, which it owns from then on.
func Open(p *pipe.Conn) (*Channel, error) { return &Channel{pipe: p}, nil }

// TrySend leaves everything to Finish, which must follow: a write to a pipe may
// always wait.
func (c *Channel) TrySend(frame []byte, _ int) (done bool, err error) {
	c.frame = frame
	return false, nil
}

// Finish sends the frame. It waits while the pipe is full, until the context ends.
func (c *Channel) Finish(ctx context.Context) error {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.pipe.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	n, err := c.pipe.Write(c.frame)
	if !stop() {
		<-interrupted
		_ = c.pipe.SetWriteDeadline(time.Time{})
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if n > 0 {
		return &PartialError{err}
	}
	return err
}

// Receive reads at least one byte. At the end it returns io.EOF.
func (c *Channel) Receive(into []byte, descriptors []int) (n int, _ []int, err error) {
	n, err = c.pipe.Read(into)
	if c.ended.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, descriptors, err
}

// Close has nothing to close: descriptors do not travel here.
func Close([]int) {}

// Allow has nothing to do: descriptors do not travel here.
func (c *Channel) Allow() {}

// SetReceiveDeadline bounds the next Receive; zero: it may wait for ever.
func (c *Channel) SetReceiveDeadline(deadline time.Time) error {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	if c.ended.Load() {
		return nil
	}
	return c.pipe.SetReadDeadline(deadline)
}

// End ends the channel: what the peer has sent is still received. A pipe cannot be
// shut for the peer and stay open to read, so what it writes in the moment of the
// end is lost: there the receiver may own what its giver thinks it kept.
func (c *Channel) End() {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.ended.Store(true)
	_ = c.pipe.SetReadDeadline(time.Now().Add(endGrace))
}

// Close closes the pipe.
func (c *Channel) Close() error { return c.pipe.Close() }
