package eventloop

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/transport"
)

// A localConn is a conn on a local socket, which can be given descriptors.
type localConn struct{ *conn }

// ExpectDescriptors sets how many may come along with a read.
func (c localConn) ExpectDescriptors(count int) {
	c.expected = count
	// It fails for a connection that is closed.
	_ = rawConn{c.conn}.Control(func(fd uintptr) {
		if count == 0 {
			rights.Refuse(int(fd))
			return
		}
		_ = c.socket.beCareful()
		rights.Allow(int(fd))
	})
}

// Received returns what came along with the last read.
func (c localConn) Received() transport.Descriptors {
	received := c.received
	c.received = transport.Descriptors{}
	return received
}

// CloseRead makes the peer unable to send any more. What it has sent can still be read.
func (c localConn) CloseRead() error {
	if err := c.socket.use(); err != nil {
		return err
	}
	defer c.socket.leave()
	return unix.Shutdown(c.socket.number, unix.SHUT_RD)
}

// SendDescriptors writes all of b with the descriptors attached to its first byte.
func (c localConn) SendDescriptors(b []byte, descriptors ...int) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	defer c.unwatch()
	rights := unix.UnixRights(descriptors...)
	n, err := c.send(func(descriptor int) (int, error) {
		return unix.SendmsgN(descriptor, b, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	if transport.NothingSent(err) {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
	}
	if err == nil {
		_, err = c.write(b[n:])
	}
	return err
}

// HungUp reports whether the peer has closed the connection altogether, as opposed
// to having ended only its own direction. It does not wait.
func (c localConn) HungUp() bool {
	if err := c.socket.use(); err != nil {
		return true
	}
	defer c.socket.leave()
	watched := []unix.PollFd{{Fd: int32(c.socket.number)}}
	n, err := unix.Poll(watched, 0)
	return err == nil && n > 0 && watched[0].Revents&unix.POLLHUP != 0
}
