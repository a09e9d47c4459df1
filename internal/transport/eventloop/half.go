package eventloop

import (
	"net"
	"os"
	"time"
)

// A half is one direction of a connection, as far as waiting is concerned. The
// connection's mu protects it.
type half struct {
	// ready: a system call may find something. It is unset before one that could
	// find nothing, so that what happens meanwhile is not missed.
	ready bool
	// inTime: that was told before the deadline, so the next system call is made even
	// if whoever makes it comes late.
	inTime   bool
	deadline time.Time
	timer    *time.Timer   // runs only while somebody waits
	waiter   chan struct{} // closed for the goroutine that waits
	resume   func()        // called for a connection that waits without one
}

// try is called before a system call; it fails when the connection is closed or the
// deadline has passed.
func (c *conn) try(h *half) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusalLocked(h); err != nil {
		return err
	}
	h.ready, h.inTime = false, false
	return nil
}

// retry notes that the next system call may find more.
func (c *conn) retry(h *half) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.ready = true
}

func (c *conn) refusalLocked(h *half) error {
	switch {
	case c.closed:
		return net.ErrClosed
	case h.passed() && !h.inTime:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (h *half) passed() bool {
	return !h.deadline.IsZero() && time.Until(h.deadline) <= 0
}

// wait waits until a system call may find something.
func (c *conn) wait(h *half) error {
	for {
		c.mu.Lock()
		if err := c.refusalLocked(h); err != nil || h.ready {
			c.mu.Unlock()
			return err
		}
		h.waiter = make(chan struct{})
		c.armLocked(h)
		woken := h.waiter
		c.mu.Unlock()
		<-woken
	}
}

// Park implements transport.ParkingConn.
func (c *conn) Park(resume func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.input.ready || c.refusalLocked(&c.input) != nil {
		return false
	}
	c.input.resume = resume
	c.armLocked(&c.input)
	return true
}

// readyLocked notes that a system call may find something, and tells who waits.
func (h *half) readyLocked() {
	h.ready = true
	h.inTime = h.inTime || !h.passed()
	h.wakeLocked()
}

// wakeLocked lets whoever waits look again.
func (h *half) wakeLocked() {
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.waiter != nil {
		close(h.waiter)
		h.waiter = nil
	}
	if h.resume != nil {
		go h.resume()
		h.resume = nil
	}
}

func (h *half) waitedFor() bool { return h.waiter != nil || h.resume != nil }

// armLocked starts the timer for somebody who waits.
func (c *conn) armLocked(h *half) {
	if h.deadline.IsZero() {
		return
	}
	remaining := time.Until(h.deadline)
	if h.timer == nil {
		h.timer = time.AfterFunc(remaining, func() { c.timeout(h) })
		return
	}
	h.timer.Reset(remaining)
}

// timeout is the timer's function. It may be late for a deadline that was moved.
func (c *conn) timeout(h *half) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !h.waitedFor():
	case h.passed() && !h.inTime:
		h.wakeLocked()
	default:
		c.armLocked(h)
	}
}

// setDeadline moves the deadline, also for a goroutine that waits already.
func (c *conn) setDeadline(h *half, deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	h.deadline, h.inTime = deadline, false
	if deadline.IsZero() && h.timer != nil {
		h.timer.Stop()
		h.timer = nil // idle connections keep none
	}
	switch {
	case !h.waitedFor():
	case h.passed() && !h.inTime:
		h.wakeLocked()
	default:
		c.armLocked(h)
	}
	return nil
}
