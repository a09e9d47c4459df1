package eventloop

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

// Write writes all of b, or fails.
func (c *conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	defer c.unwatch()
	return c.write(b)
}

// WriteBuffers implements transport.Carrier.
func (c *conn) WriteBuffers(buffers net.Buffers) (taken int64, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	defer c.unwatch()
	sent, err := c.send(func(descriptor int) (int, error) {
		return unix.Writev(descriptor, buffers)
	})
	taken = int64(sent)
	for _, buffer := range buffers {
		skipped := min(sent, len(buffer))
		sent -= skipped
		if err == nil {
			var more int
			more, err = c.write(buffer[skipped:])
			taken += int64(more)
		}
	}
	return taken, err
}

// Certainty implements transport.Carrier.
func (c *conn) Certainty() transport.Certainty { return transport.CertaintyOf(c) }

// write is Write. Preconditions of this and what follows: writing is held.
func (c *conn) write(b []byte) (written int, err error) {
	for written < len(b) {
		n, err := c.send(func(descriptor int) (int, error) {
			// As package net does it: the race detector then knows that what was
			// written was so before it was read.
			return syscall.Write(descriptor, b[written:])
		})
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// send calls write, which does not wait because package net makes no sockets that do,
// until the socket takes something or fails.
func (c *conn) send(write func(descriptor int) (int, error)) (int, error) {
	for {
		if err := c.try(&c.output); err != nil {
			return 0, c.failed("write", err)
		}
		n, err := c.sendOnce(write)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			err = c.waitForRoom()
		}
		if err != nil {
			return 0, c.failed("write", err)
		}
	}
}

func (c *conn) sendOnce(write func(descriptor int) (int, error)) (int, error) {
	if err := c.socket.use(); err != nil {
		return 0, err
	}
	defer c.socket.leave()
	return write(c.socket.number)
}

// waitForRoom waits until the socket takes something again. To begin to watch tells
// of room that there is already.
func (c *conn) waitForRoom() error {
	if !c.watched {
		if err := c.set.watch(c, watchWriting); err != nil {
			return err
		}
		c.watched = true
	}
	return c.wait(&c.output)
}

// unwatch undoes that after a write that had to wait.
func (c *conn) unwatch() {
	if c.watched {
		c.watched = false
		// It fails only for a connection that is closed.
		_ = c.set.watch(c, watchReading)
	}
}
