package front

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
)

// A connection is an accepted socket that the runtime's poller does not know: most
// have sent their request when they are accepted, and are given away at once.
// One that has to be waited for joins the poller then. One goroutine uses it.
type connection struct {
	fd     int
	remote net.Addr
	// blocking: its receiver need not take it off a poller again.
	blocking bool
	// file owns the descriptor as soon as the poller knows it.
	file   *os.File
	closed bool
}

// accept takes a connection from a listening socket; again is true when none is
// there. It is blocking where nobody is expected to wait for it.
func accept(listening uintptr, blocking bool) (c *connection, again bool, err error) {
	flags := unix.SOCK_CLOEXEC
	if !blocking {
		flags |= unix.SOCK_NONBLOCK
	}
	for {
		fd, address, err := acceptNow(listening, flags)
		switch err {
		case nil:
			return &connection{fd: fd, remote: netAddress(address), blocking: blocking}, false, nil
		case syscall.EAGAIN:
			return nil, true, nil
		case syscall.EINTR, syscall.ECONNABORTED:
		default:
			return nil, false, os.NewSyscallError("accept4", err)
		}
	}
}

func netAddress(address syscall.Sockaddr) net.Addr {
	switch a := address.(type) {
	case *syscall.SockaddrInet4:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)))
	case *syscall.SockaddrInet6:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)))
	case *syscall.SockaddrUnix:
		return &net.UnixAddr{Net: "unix", Name: a.Name}
	}
	return nil
}

// deferAccept leaves connections with the kernel until they have sent something,
// or until that many seconds have passed.
func deferAccept(listening uintptr, seconds int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(listening), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, seconds))
}

// sendAtOnce makes the connections of a listening socket send what is written without waiting for
// more (TCP_NODELAY), as most servers have it for those that they accept themselves. A server that
// writes an answer in two pieces would otherwise wait 40 ms and more for its client to acknowledge the first.
func sendAtOnce(listening uintptr) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(listening), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// polled makes the runtime's poller wait for the connection.
func (c *connection) polled() *os.File {
	if c.file == nil {
		if c.blocking {
			// Of an open socket this does not fail.
			_ = unix.SetNonblock(c.fd, true)
		}
		c.file = os.NewFile(uintptr(c.fd), "connection")
	}
	return c.file
}

// SyscallConn makes handoff.Peek and Peer.SendConn take a connection.
func (c *connection) SyscallConn() (syscall.RawConn, error) {
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.file != nil {
		return c.file.SyscallConn()
	}
	return (*rawConnection)(c), nil
}

func (c *connection) Read(buffer []byte) (int, error)    { return c.polled().Read(buffer) }
func (c *connection) Write(data []byte) (int, error)     { return c.polled().Write(data) }
func (c *connection) SetDeadline(t time.Time) error      { return c.polled().SetDeadline(t) }
func (c *connection) SetReadDeadline(t time.Time) error  { return c.polled().SetReadDeadline(t) }
func (c *connection) SetWriteDeadline(t time.Time) error { return c.polled().SetWriteDeadline(t) }
func (c *connection) RemoteAddr() net.Addr               { return c.remote }

// LocalAddr asks the kernel, which nobody needs on the way to a backend.
func (c *connection) LocalAddr() net.Addr {
	address, err := syscall.Getsockname(c.fd)
	if err != nil {
		return nil
	}
	return netAddress(address)
}

// CloseWrite tells the client that nothing follows.
func (c *connection) CloseWrite() error {
	return os.NewSyscallError("shutdown", unix.Shutdown(c.fd, unix.SHUT_WR))
}

// Close closes the descriptor and does nothing to the connection, which may be
// another process's.
func (c *connection) Close() error {
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if c.file != nil {
		return c.file.Close()
	}
	if _, tcp := c.remote.(*net.TCPAddr); tcp {
		return rights.CloseTCP(c.fd)
	}
	// A local socket may have descriptors in its queue, whose closing waits.
	return os.NewSyscallError("close", unix.Close(c.fd))
}

// receiveNow returns what has arrived, as far as it fits into an ordinary request.
func receiveNow(fd uintptr) []byte {
	buffer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(int(fd), buffer, syscall.MSG_DONTWAIT)
	if err != nil {
		return nil
	}
	return buffer[:n]
}

// peek returns what has arrived, as far as there is room, and consumes nothing.
func (c *connection) peek(into []byte) []byte {
	return into[:peekNow(c.fd, into)]
}

// sendNow sends what the socket takes at once, and tells the client that nothing
// follows.
func sendNow(fd uintptr, data []byte) {
	_ = syscall.Sendto(int(fd), data, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, nil)
	_ = syscall.Shutdown(int(fd), syscall.SHUT_WR)
}

// A rawConnection is the bare descriptor for those who use it at once.
type rawConnection connection

func (c *rawConnection) Control(f func(fd uintptr)) error {
	if c.file != nil {
		raw, err := c.file.SyscallConn()
		if err != nil {
			return err
		}
		return raw.Control(f)
	}
	f(uintptr(c.fd))
	return nil
}

func (c *rawConnection) Read(f func(fd uintptr) (done bool)) error {
	raw, err := (*connection)(c).polled().SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(f)
}

func (c *rawConnection) Write(f func(fd uintptr) (done bool)) error {
	raw, err := (*connection)(c).polled().SyscallConn()
	if err != nil {
		return err
	}
	return raw.Write(f)
}
