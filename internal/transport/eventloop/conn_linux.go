package eventloop

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/transport"
)

// A conn is a connected stream socket whose waiting a set does. Goroutines that wait
// in Read or Write are woken by the set too. Only one goroutine may read at a time.
type conn struct {
	socket socket
	set    *set
	// generation tells it from others that the set has watched by the same number.
	generation int32
	own        net.Addr
	remote     net.Addr

	// writing is held by the goroutine that writes. It also guards watched: whether
	// room to write is watched for.
	writing sync.Mutex
	watched bool

	// Of who reads: how many descriptors may come along, and what came with the
	// last read.
	expected int
	received transport.Descriptors

	// mu protects what follows.
	mu     sync.Mutex
	closed bool
	ended  bool // the peer has: reading goes on to the end
	input  half
	output half
}

// newConn makes a connection of a descriptor of the same socket as from.
func newConn(s *set, descriptor int, from net.Conn) (transport.ParkingConn, error) {
	c := &conn{set: s, own: from.LocalAddr(), remote: from.RemoteAddr()}
	c.socket.number = descriptor
	_, local := from.(*net.UnixConn)
	if local {
		if err := c.socket.refuse(); err != nil {
			return nil, err
		}
	}
	// What came before the set watched is told as soon as it does.
	if err := s.add(c); err != nil {
		return nil, err
	}
	if local {
		return localConn{c}, nil
	}
	return c, nil
}

// happened is called by the poller.
func (c *conn) happened(events uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const over = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	c.ended = c.ended || events&over != 0
	if events&(unix.EPOLLIN|over) != 0 {
		c.input.readyLocked()
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.output.readyLocked()
	}
}

// Read reads up to len(b) bytes. It fails with transport.ErrDescriptors when
// descriptors came along that were not expected.
func (c *conn) Read(b []byte) (int, error) {
	for {
		n, err := c.ReadNow(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		if err := c.wait(&c.input); err != nil {
			return 0, c.failed("read", err)
		}
	}
}

// ReadNow is Read without waiting: 0 and no error mean that nothing is there.
func (c *conn) ReadNow(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := c.try(&c.input); err != nil {
		return 0, c.failed("read", err)
	}
	n, more, err := c.receive(b)
	if more {
		c.retry(&c.input)
	}
	return n, err
}

// receive reads once; more is set unless what was there has been read: then the
// kernel tells when there is something again.
func (c *conn) receive(b []byte) (n int, more bool, err error) {
	r, err := c.recvmsg(b)
	// A read ends after descriptors although there may be more.
	came := len(r.Numbers) > 0 || r.Truncated
	if came {
		c.received = transport.Descriptors{Numbers: r.Numbers, Truncated: r.Truncated}.Only(c.expected)
	}
	switch {
	case err == unix.EAGAIN:
		return 0, false, nil
	case err == transport.ErrDescriptors:
		return 0, true, err
	case err != nil:
		return 0, true, c.failed("read", err)
	case came && c.expected == 0:
		return 0, true, transport.ErrDescriptors
	case r.Bytes == 0:
		return 0, true, io.EOF
	}
	return r.Bytes, came || r.Bytes == len(b) || c.hasEnded(), nil
}

func (c *conn) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (c *conn) recvmsg(b []byte) (rights.Received, error) {
	if err := c.socket.use(); err != nil {
		return rights.Received{}, err
	}
	defer c.socket.leave()
	receive := recvmsg
	if c.socket.careful.Load() {
		if rights.MustStay(c.socket.number, c.expected > 0) {
			return rights.Received{}, transport.ErrDescriptors
		}
		receive = rights.Receive
	}
	r, failure := receive(c.socket.number, b)
	if failure != 0 {
		return r, failure
	}
	return r, nil
}

// Close closes the connection, and wakes goroutines that wait for it.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.failed("close", net.ErrClosed)
	}
	c.closed = true
	c.input.wakeLocked()
	c.output.wakeLocked()
	c.mu.Unlock()
	c.set.remove(c)
	c.socket.close()
	return nil
}

func (c *conn) failed(operation string, err error) error {
	var number unix.Errno
	if errors.As(err, &number) {
		err = os.NewSyscallError(operation, err)
	}
	return &net.OpError{Op: operation, Net: c.own.Network(), Source: c.own, Addr: c.remote, Err: err}
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.own }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(deadline time.Time) error {
	return errors.Join(c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(deadline time.Time) error {
	return c.setDeadline(&c.input, deadline)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(deadline time.Time) error {
	return c.setDeadline(&c.output, deadline)
}

// SyscallConn implements syscall.Conn.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

// A rawConn lets others ask the kernel about the socket, but not wait for it.
type rawConn struct{ conn *conn }

func (r rawConn) Control(f func(fd uintptr)) error {
	if err := r.conn.socket.use(); err != nil {
		return err
	}
	defer r.conn.socket.leave()
	f(uintptr(r.conn.socket.number))
	return nil
}

func (r rawConn) Read(func(fd uintptr) bool) error { return errors.ErrUnsupported }

func (r rawConn) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
