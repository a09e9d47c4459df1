package inprocess

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
)

// halfBytesMax is how much a connection takes in one direction that was not read yet. It
// is small, so that tests meet writes that are taken in part.
const halfBytesMax = 32 << 10

// A half is one direction of a connection.
type half struct {
	// mu protects what follows; changed is broadcast when it changes.
	mu      sync.Mutex
	changed sync.Cond
	data    []byte // taken and not read
	sent    end    // of the writer's side
	read    end    // of the reader's side
	reset   bool   // the end of the stream is told as a reset
}

// An end is what one of the two sides of a half has set.
type end struct {
	closed   bool
	deadline time.Time
	timer    *time.Timer
}

func newHalf() *half {
	h := new(half)
	h.changed.L = &h.mu
	return h
}

// failedLocked returns why this side may not wait any longer.
func (e *end) failedLocked() error {
	switch {
	case e.closed:
		return net.ErrClosed
	case !e.deadline.IsZero() && !time.Now().Before(e.deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (h *half) setDeadline(of *end, deadline time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if of.closed {
		return net.ErrClosed
	}
	if of.timer != nil {
		of.timer.Stop()
	}
	of.deadline = deadline
	if !deadline.IsZero() {
		of.timer = time.AfterFunc(time.Until(deadline), h.wake)
	}
	h.changed.Broadcast()
	return nil
}

// wake wakes those who wait, after whatever a broadcast would have missed.
func (h *half) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed.Broadcast()
}

// take takes what there is room for, and fails if nothing will ever be read.
func (h *half) take(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.writableLocked(); err != nil {
		return 0, err
	}
	b = b[:min(len(b), halfBytesMax-len(h.data))]
	h.data = append(h.data, b...)
	h.changed.Broadcast()
	return len(b), nil
}

func (h *half) writableLocked() error {
	if err := h.sent.failedLocked(); err != nil {
		return err
	}
	if h.read.closed {
		return syscall.EPIPE
	}
	return nil
}

// awaitRoom waits until take would take something or fail.
func (h *half) awaitRoom() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if err := h.writableLocked(); err != nil || len(h.data) < halfBytesMax {
			return err
		}
		h.changed.Wait()
	}
}

// receive reads what is there, and waits for something.
func (h *half) receive(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if err := h.read.failedLocked(); err != nil {
			return 0, err
		}
		if len(h.data) > 0 || len(b) == 0 {
			n := copy(b, h.data)
			h.data = h.data[:copy(h.data, h.data[n:])]
			h.changed.Broadcast()
			return n, nil
		}
		if h.sent.closed {
			if h.reset {
				return 0, syscall.ECONNRESET
			}
			return 0, io.EOF
		}
		h.changed.Wait()
	}
}

// endReading drops what was not read, and reports whether there was something.
func (h *half) endReading() (unread bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	unread = len(h.data) > 0
	h.data = nil
	h.read.closeLocked()
	h.changed.Broadcast()
	return unread
}

// endWriting ends the stream. If lose is set, what was not read is lost.
func (h *half) endWriting(lose, reset bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lose {
		h.data = nil
	}
	h.sent.closeLocked()
	h.reset = reset
	h.changed.Broadcast()
}

func (e *end) closeLocked() {
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

// A Conn is one end of a connection. It is a transport.OfferingCarrier.
type Conn struct {
	in, out     *half
	own, remote net.Addr
	certainty   transport.Certainty
	closing     sync.Once
}

func newConn(in, out *half, own, remote net.Addr, certainty transport.Certainty) *Conn {
	return &Conn{in: in, out: out, own: own, remote: remote, certainty: certainty}
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) { return c.in.receive(b) }

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (taken int, err error) {
	for {
		n, err := c.out.take(b[taken:])
		taken += n
		if err != nil || taken == len(b) {
			return taken, err
		}
		if err := c.out.awaitRoom(); err != nil {
			return taken, err
		}
	}
}

// WriteBuffers implements transport.Carrier.
func (c *Conn) WriteBuffers(buffers net.Buffers) (taken int64, err error) {
	for _, buffer := range buffers {
		n, err := c.Write(buffer)
		taken += int64(n)
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// Offer implements transport.OfferingCarrier.
func (c *Conn) Offer(take func(transport.Room) (done bool)) error {
	for !take(room{c.out}) {
		if err := c.out.awaitRoom(); err != nil {
			return err
		}
	}
	return nil
}

type room struct{ half *half }

// WriteNow implements transport.Room.
func (r room) WriteNow(b []byte) (int, error) { return r.half.take(b) }

// Certainty implements transport.Carrier.
func (c *Conn) Certainty() transport.Certainty { return c.certainty }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.closing.Do(func() {
		unread := c.in.endReading()
		c.out.endWriting(false, unread && c.certainty == transport.UnreadReported)
	})
	return nil
}

// Break ends the connection for both sides as a fault on the way does, if nothing but
// TakenOnly is certain: what was taken and not read is lost, and the other side is told
// of a reset, whatever this side has read.
func (c *Conn) Break() {
	c.closing.Do(func() {
		c.in.endReading()
		c.out.endWriting(true, true)
	})
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.own }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(deadline time.Time) error {
	if err := c.SetReadDeadline(deadline); err != nil {
		return err
	}
	return c.SetWriteDeadline(deadline)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(deadline time.Time) error {
	return c.in.setDeadline(&c.in.read, deadline)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(deadline time.Time) error {
	return c.out.setDeadline(&c.out.sent, deadline)
}
