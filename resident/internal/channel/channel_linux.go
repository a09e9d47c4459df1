// Package channel is a resident's side of a connection: requests with descriptors,
// frames, and who is at the other end.
package channel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/resident/internal/request"
)

var (
	// ErrOther is a connection that is for a server, not of a launcher.
	ErrOther = errors.New("not a launcher's connection")
	// ErrDescriptors is a request without the descriptors that belong to it.
	ErrDescriptors = errors.New("a descriptor is missing")
)

// A Conn is a launcher's connection. One goroutine reads; any may write.
type Conn struct {
	socket  *net.UnixConn
	raw     syscall.RawConn
	writing sync.Mutex
	passed  atomic.Bool // what comes is another process's to read
}

// Open returns a Conn over a socket, which it owns.
func Open(socket *net.UnixConn) (*Conn, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	return &Conn{socket: socket, raw: raw}, nil
}

// FromDescriptor returns a Conn over a descriptor, which it owns.
func FromDescriptor(fd int) (*Conn, error) {
	file := os.NewFile(uintptr(fd), "launcher")
	made, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return nil, err
	}
	socket, ok := made.(*net.UnixConn)
	if !ok {
		_ = made.Close()
		return nil, errors.New("a launcher's connection is not a Unix socket")
	}
	return Open(socket)
}

// Socket is what the Conn is over.
func (c *Conn) Socket() *net.UnixConn { return c.socket }

// Close ends the connection. Descriptors that wait in its queue are taken out before: the
// kernel would close them, and wait for what they are.
func (c *Conn) Close() error {
	if !c.passed.Load() {
		// It fails where the connection is closed already.
		_ = c.raw.Control(func(fd uintptr) { rights.Drain(int(fd)) })
	}
	return c.socket.Close()
}

// PassOn is Control with an f that gives the connection to another process. Where it
// does, what comes on the connection is left to that process.
func (c *Conn) PassOn(f func(fd int) error) error {
	err := c.Control(f)
	if err == nil {
		c.passed.Store(true)
	}
	return err
}

// Control calls f with the descriptor.
func (c *Conn) Control(f func(fd int) error) error {
	var failure error
	err := c.raw.Control(func(fd uintptr) { failure = f(int(fd)) })
	return errors.Join(err, failure)
}

// Header returns the header of the request that comes, and leaves it where it is. It
// waits for what belongs to it too, as far as a launcher sends that in one piece: who
// receives the request then need not wait for somebody who sends a header alone.
//
// It fails with ErrOther when the first byte is none of a launcher's, and with
// os.ErrDeadlineExceeded when there is none in time.
func (c *Conn) Header(timeout time.Duration) (request.Header, error) {
	_ = c.socket.SetReadDeadline(time.Now().Add(timeout))
	var b [request.HeaderBytes]byte
	n, failure := 0, error(nil)
	err := c.raw.Read(func(fd uintptr) bool {
		over := endsSoon(int(fd)) // before the peek, which does not tell of an end behind some bytes
		n, failure = peek(int(fd), b[:])
		return failure != unix.EAGAIN && (failure != nil || over || n == 0 || !request.Ours(b[0]) || n == len(b) && arrived(int(fd), b[:]))
	})
	_ = c.socket.SetReadDeadline(time.Now().Add(HelloTimeout)) // for the rest
	switch {
	case err != nil:
		return request.Header{}, err
	case failure != nil:
		return request.Header{}, os.NewSyscallError("recv", failure)
	case n == 0:
		return request.Header{}, io.EOF
	case !request.Ours(b[0]):
		_ = c.socket.SetReadDeadline(time.Time{}) // how long it may be silent is the server's to say
		return request.Header{}, ErrOther
	case n < len(b):
		return request.Header{}, io.ErrUnexpectedEOF
	}
	return request.ParseHeader(b[:])
}

// pieceBytes are sent at once: the kernel makes one buffer of so much. Longer requests
// are received while they are sent.
const pieceBytes = 32 << 10

// arrived tells that the request of a header is there, or its first piece.
func arrived(fd int, header []byte) bool {
	h, err := request.ParseHeader(header)
	if err != nil {
		return true
	}
	there, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err != nil || there >= min(h.Bytes, pieceBytes)
}

// HelloTimeout is how long a request may take.
const HelloTimeout = wire.HelloTimeoutMs * time.Millisecond

// endsSoon tells that the other end sends no more than what has arrived.
func endsSoon(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(poll, 0)
	return n == 1 && err == nil && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0
}

// peek has no room for descriptors, which the kernel would copy for it.
func peek(fd int, b []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// Receive returns the request that Header announced, and the descriptors of a
// request to run, which are the caller's and close-on-exec.
func (c *Conn) Receive(h request.Header) (request.Request, []int, error) {
	b, got, truncated, err := c.receiveAll(h.Bytes)
	if err != nil {
		rights.Close(got...)
		return request.Request{}, nil, err
	}
	_ = c.socket.SetReadDeadline(time.Time{})
	r, err := h.ParseBody(b[request.HeaderBytes:])
	switch {
	case err != nil:
	case h.Kind == request.Run && (truncated || len(got) < request.Descriptors):
		err = ErrDescriptors
	case h.Kind != request.Run && len(got) > 0 || len(got) > request.Descriptors:
		err = request.ErrMalformed
	}
	if err != nil {
		rights.Close(got...)
		return request.Request{}, nil, err
	}
	return r, got, nil
}

// firstBytes are what there is memory for before more has come.
const firstBytes = 64 << 10

func (c *Conn) receiveAll(total int) (b []byte, got []int, truncated bool, err error) {
	b = make([]byte, min(total, firstBytes))
	for n := 0; n < total; {
		r, err := c.receive(b[n:])
		got = append(got, r.Numbers...)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err == nil && len(got) > request.Descriptors {
			err = request.ErrMalformed
		}
		if err != nil {
			return nil, got, truncated, err
		}
		truncated = truncated || r.Truncated
		if n += r.Bytes; n == len(b) && n < total {
			b = append(b, make([]byte, min(total-n, n))...)
		}
	}
	return b, got, truncated, nil
}

// receive waits for what comes next.
func (c *Conn) receive(b []byte) (r rights.Received, err error) {
	var failure unix.Errno
	err = c.raw.Read(func(fd uintptr) bool {
		r, failure = rights.Receive(int(fd), b)
		return failure != unix.EAGAIN
	})
	switch {
	case err != nil:
	case failure != 0:
		err = os.NewSyscallError("recvmsg", failure)
	case r.Bytes == 0:
		err = io.EOF
	}
	return r, err
}

// OnEnd calls f in a goroutine when the launcher ends the connection in both directions,
// whatever else it has sent. stop, which is to be called, returns when f is not called any more. Nothing
// reads meanwhile, nor after it.
func (c *Conn) OnEnd(f func()) (stop func()) {
	_ = c.socket.SetReadDeadline(time.Time{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if c.raw.Read(ended) == nil {
			f()
		}
	}()
	return func() {
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
		<-stopped
	}
}

func ended(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(poll, 0)
	return n == 1 && err == nil && poll[0].Revents&unix.POLLHUP != 0
}

// Write sends a frame.
func (c *Conn) Write(f request.Frame) error {
	var b [64]byte
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.socket.Write(f.Append(b[:0]))
	return err
}

// Read returns the launcher's next frame, and io.EOF when it is gone.
func (c *Conn) Read() (request.Frame, error) { return ReadFrame(frames{c}) }

// frames are what comes behind a request. They bring no descriptors: those that come are
// taken nevertheless, because the kernel would close them in the read, and wait for what they are.
type frames struct{ c *Conn }

func (f frames) Read(b []byte) (int, error) {
	r, err := f.c.receive(b)
	rights.Close(r.Numbers...)
	if len(r.Numbers) > 0 || r.Truncated {
		return 0, request.ErrMalformed
	}
	return r.Bytes, err
}

// ReadFrame reads a frame from either side's connection.
func ReadFrame(from io.Reader) (request.Frame, error) {
	var b [request.FrameHeaderBytes]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return request.Frame{}, err
	}
	f, textBytes, err := request.ParseFrame(b[:])
	if err != nil || textBytes == 0 {
		return f, err
	}
	text := make([]byte, textBytes)
	_, err = io.ReadFull(from, text)
	f.Text = string(text)
	return f, err
}
