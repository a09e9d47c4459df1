package unixsocket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/transport"
)

// The kernel refuses descriptors on behalf of a conn, if it can, until some are expected;
// until then the conn reads by recv, which takes half a microsecond less than recvmsg and
// never waits for the closing of a descriptor. Otherwise it reads by recvmsg with room for
// all descriptors that may come: those without room would be closed by the kernel within
// the read, and closing some descriptors takes as long as others like. The callback is
// made once, so that reading allocates nothing.
//
// Only one goroutine may Read at a time. In all other respects it is like a
// *net.UnixConn.
type conn struct {
	*net.UnixConn
	transport.SocketOffer
	receive    func(fd uintptr) bool // waits
	receiveNow func(fd uintptr) bool

	// careful is set once descriptors may come, whether or not they are expected.
	careful  atomic.Bool
	expected int
	received transport.Descriptors // what came with the last read
	strays   bool                  // some came that were not expected

	// reading is held during each careful read, and protects emptied. emptied means
	// that the queue was emptied in order to close the connection, so what a reader
	// finds there is not what came next. Close does not wait for this lock: if it is
	// held, its holder empties the queue afterwards.
	reading sync.Mutex
	emptied bool
	closing atomic.Bool

	into    []byte // of the read under way
	count   int
	failure unix.Errno
}

// newConn makes the conn of a socket. clean says that the socket refuses descriptors and
// credentials and always did.
func newConn(socket *net.UnixConn, clean bool) (*conn, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{UnixConn: socket, SocketOffer: transport.SocketOffer{Raw: raw}}
	c.receive = c.receiveOnce
	c.receiveNow = func(fd uintptr) bool {
		c.receiveOnce(fd)
		return true
	}
	if clean {
		return c, nil
	}
	return c, errors.Join(c.refuseCredentials(), c.refuseDescriptors())
}

// WriteBuffers implements transport.Carrier.
func (c *conn) WriteBuffers(buffers net.Buffers) (int64, error) { return buffers.WriteTo(c.UnixConn) }

// Certainty implements transport.Carrier.
func (*conn) Certainty() transport.Certainty { return transport.UnreadReported }

// refuseDescriptors makes the kernel refuse descriptors, which it would otherwise let
// pass.
func (c *conn) refuseDescriptors() error {
	clean := false
	err := c.Raw.Control(func(fd uintptr) { clean = rights.Refuse(int(fd)) })
	if err == nil && !clean {
		err = c.beCareful()
	}
	return err
}

// beCareful makes reads careful for as long as the connection lives, because
// descriptors that were sent while that was allowed may still be queued.
func (c *conn) beCareful() error {
	c.careful.Store(true)
	var failure error
	err := c.Raw.Control(func(fd uintptr) { failure = rights.Expect(int(fd)) })
	return errors.Join(err, failure)
}

func (c *conn) refuseCredentials() error {
	var failure error
	err := c.Raw.Control(func(fd uintptr) { failure = rights.RefuseCredentials(int(fd)) })
	return errors.Join(err, failure)
}

// Read reads up to len(b) bytes. It fails with transport.ErrDescriptors if descriptors
// came that were not expected.
func (c *conn) Read(b []byte) (int, error) {
	return c.read(b, c.receive)
}

// ReadNow is Read without waiting. 0 without an error means that nothing has arrived.
func (c *conn) ReadNow(b []byte) (int, error) {
	n, err := c.read(b, c.receiveNow)
	if c.failure == unix.EAGAIN && errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return n, err
}

// ExpectDescriptors sets how many may come along with a read.
func (c *conn) ExpectDescriptors(count int) {
	c.expected = count
	// Each of these calls fails only if the connection is closed.
	if count == 0 {
		_ = c.refuseDescriptors()
		return
	}
	_ = c.beCareful()
	_ = c.Raw.Control(func(fd uintptr) { rights.Allow(int(fd)) })
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
	c.into = b
	err := c.Raw.Read(receive)
	c.into = nil
	switch {
	case err != nil:
		return 0, err
	case c.failure == unix.EBADF:
		return 0, &net.OpError{Op: "read", Net: "unix", Err: net.ErrClosed}
	case c.failure != 0:
		return 0, &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("recv", c.failure)}
	case c.strays:
		return 0, transport.ErrDescriptors
	case c.count == 0:
		return 0, io.EOF
	}
	return c.count, nil
}

// receiveOnce reports whether the read is over. If it returns false the poller waits.
func (c *conn) receiveOnce(fd uintptr) bool {
	if c.careful.Load() {
		c.receiveCarefully(int(fd))
		return c.failure != unix.EAGAIN
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(c.into))), uintptr(len(c.into)), unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			c.count, c.failure = int(n), errno
			return errno != unix.EAGAIN
		}
	}
}

func (c *conn) receiveCarefully(fd int) {
	c.reading.Lock()
	defer func() {
		c.reading.Unlock()
		if c.closing.Load() {
			c.empty(fd)
		}
	}()
	if c.emptied {
		c.failure = unix.EBADF
		return
	}
	if c.strays = rights.MustStay(fd, c.expected > 0); c.strays {
		c.failure = 0
		return
	}
	r, failure := rights.Receive(fd, c.into)
	c.count, c.failure = r.Bytes, failure
	if len(r.Numbers) == 0 && !r.Truncated {
		return
	}
	c.received = transport.Descriptors{Numbers: r.Numbers, Truncated: r.Truncated}.Only(c.expected)
	if c.strays = c.expected == 0; c.strays {
		c.received = transport.Descriptors{}
	}
}

// Close closes the connection. It first takes out the descriptors that wait in its
// queue, because the kernel would close them and might wait for that. It does not wait
// for a read that the kernel holds up.
func (c *conn) Close() error {
	if !c.careful.Load() {
		return c.UnixConn.Close()
	}
	c.closing.Store(true)
	emptied := true
	// This fails if the connection is already closed.
	_ = c.Raw.Control(func(fd uintptr) { emptied = c.empty(int(fd)) })
	if emptied {
		return c.UnixConn.Close()
	}
	// The peer must be told now, because the runtime's poller would wait for the
	// reader.
	_ = c.Raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	go func() { _ = c.UnixConn.Close() }()
	return nil
}

// empty empties the queue. It does nothing and reports false while somebody reads, who
// will then empty it.
func (c *conn) empty(fd int) bool {
	if !c.reading.TryLock() {
		return false
	}
	defer c.reading.Unlock()
	if !c.emptied {
		c.emptied = true
		rights.Drain(fd)
	}
	return true
}
