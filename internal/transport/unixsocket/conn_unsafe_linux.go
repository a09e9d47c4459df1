package unixsocket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport"
)

const wordBytes = 8

// A conn reads by recvmsg. Where no descriptors are expected it has no control
// space: those that a peer sends are then closed by the kernel and reported
// (MSG_CTRUNC), where read(2) would lose them without a word. The message header
// lives in the conn and the callback is made once, so that reading allocates nothing.
//
// Only one goroutine may Read at a time; all else is as for *net.UnixConn.
type conn struct {
	*net.UnixConn
	raw        syscall.RawConn
	receive    func(fd uintptr) bool // waits
	receiveNow func(fd uintptr) bool

	// control is where descriptors come to, nil where none are expected, and
	// received what came with the last read.
	control  []uint64
	received transport.Descriptors

	header  unix.Msghdr
	vector  unix.Iovec
	count   int
	failure unix.Errno
}

func newConn(socket *net.UnixConn) (*conn, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{UnixConn: socket, raw: raw}
	c.header.Iov, c.header.Iovlen = &c.vector, 1
	c.receive = c.receiveOnce
	c.receiveNow = func(fd uintptr) bool {
		c.receiveOnce(fd)
		return true
	}
	return c, c.refuseCredentials()
}

// refuseCredentials undoes what a service manager may have set on the listener
// (PassCredentials=): credentials with every read would look like descriptors.
func (c *conn) refuseCredentials() error {
	var failure error
	err := c.raw.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 0)
	})
	return errors.Join(err, failure)
}

// Read reads up to len(b) bytes. It fails with transport.ErrDescriptors when
// descriptors came along.
func (c *conn) Read(b []byte) (int, error) {
	return c.read(b, c.receive)
}

// ReadNow is Read without waiting: 0 and no error mean that nothing is there.
func (c *conn) ReadNow(b []byte) (int, error) {
	n, err := c.read(b, c.receiveNow)
	if c.failure == unix.EAGAIN && errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return n, err
}

// ExpectDescriptors sets how many may come along with a read.
func (c *conn) ExpectDescriptors(count int) {
	if count == 0 {
		c.control, c.header.Control = nil, nil
		c.header.SetControllen(0)
		return
	}
	c.control = make([]uint64, unix.CmsgSpace(count*transport.DescriptorBytes)/wordBytes)
	c.header.Control = (*byte)(unsafe.Pointer(unsafe.SliceData(c.control)))
}

// Received returns what came along with the last read.
func (c *conn) Received() transport.Descriptors {
	received := c.received
	c.received = transport.Descriptors{}
	return received
}

func (c *conn) read(b []byte, receive func(fd uintptr) bool) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.vector.Base = unsafe.SliceData(b)
	c.vector.SetLen(len(b))
	err := c.raw.Read(receive)
	c.vector.Base = nil
	switch {
	case err != nil:
		return 0, err
	case c.failure != 0:
		return 0, &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("recvmsg", c.failure)}
	case c.header.Flags&unix.MSG_CTRUNC != 0 && c.control == nil:
		return 0, transport.ErrDescriptors
	case c.control != nil && (c.header.Controllen > 0 || c.header.Flags&unix.MSG_CTRUNC != 0):
		c.keepReceived()
	}
	if c.count == 0 {
		return 0, io.EOF
	}
	return c.count, nil
}

// keepReceived takes the descriptors out of the control message.
func (c *conn) keepReceived() {
	control := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.control))), len(c.control)*wordBytes)
	c.received = transport.Descriptors{
		Files:     transport.FilesOf(control[:c.header.Controllen]),
		Truncated: c.header.Flags&unix.MSG_CTRUNC != 0,
	}
}

// receiveOnce reports whether the read is over; false waits in the poller.
func (c *conn) receiveOnce(fd uintptr) bool {
	for {
		c.header.Flags = 0
		if c.control != nil {
			c.header.SetControllen(len(c.control) * wordBytes)
		}
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&c.header)), unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		switch errno {
		case unix.EINTR:
		default:
			c.count, c.failure = int(n), errno
			return errno != unix.EAGAIN
		}
	}
}
