//go:build unix

package channel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Channel is one end. One goroutine receives; sends are serialised by whoever
// calls.
type Channel struct {
	socket *net.UnixConn
	raw    syscall.RawConn

	// What Receive hands to the runtime's poller and back, made once.
	receive  func(fd uintptr) bool
	received struct {
		into        []byte
		n           int
		descriptors []int
		truncated   bool
		err         error
		// withRights means that descriptors came with what was received last. One side of
		// most channels gives and the other one answers, so they will come again, or not.
		withRights bool
	}
	// The same of Send.
	send func(fd uintptr) bool
	sent struct {
		bytes   []byte
		control []byte // nil: no descriptor
		n       int
		err     error
	}
	rights []byte // a control message for one descriptor, whose number is filled in
	ended  atomic.Bool
}

// Open returns a channel over a socket, which it owns from then on.
func Open(socket *net.UnixConn) (*Channel, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Channel{socket: socket, raw: raw, rights: unix.UnixRights(0)}
	c.receive, c.send = c.tryReceive, c.trySend
	return c, c.refuseCredentials()
}

// TrySend sends a frame and the descriptor that belongs to it, or NoDescriptor, in
// one message, as far as the socket takes it at once. Unless it is done, Finish
// must follow; the frame is in use until then.
func (c *Channel) TrySend(frame []byte, descriptor int) (done bool, err error) {
	c.sent.bytes, c.sent.control, c.sent.n, c.sent.err = frame, nil, 0, nil
	if descriptor >= 0 {
		binary.NativeEndian.PutUint32(c.rights[unix.CmsgLen(0):], uint32(descriptor))
		c.sent.control = c.rights
	}
	// Nearly always there is room, and then no deadline is needed.
	if err := c.raw.Control(func(fd uintptr) { done = c.send(fd) }); err != nil {
		return true, err
	}
	return done, c.sent.err
}

// Finish sends the rest as the socket takes it, until the context ends. A frame
// that has begun is given a little longer, for without its end the channel is lost.
func (c *Channel) Finish(ctx context.Context) error {
	err := c.writeUntil(ctx)
	if err == nil {
		return c.sent.err
	}
	if c.sent.n > 0 && ctx.Err() != nil {
		_ = c.socket.SetWriteDeadline(time.Now().Add(wire.HandoffRecallMs * time.Millisecond))
		err = c.raw.Write(c.send)
		_ = c.socket.SetWriteDeadline(time.Time{})
		if err == nil {
			return c.sent.err
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if c.sent.n > 0 {
		return &PartialError{err}
	}
	return err
}

func (c *Channel) writeUntil(ctx context.Context) error {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.socket.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	err := c.raw.Write(c.send)
	if !stop() {
		<-interrupted
		_ = c.socket.SetWriteDeadline(time.Time{})
	}
	return err
}

// trySend sends what is left; it reports whether that, or an error, is the end of
// it. The descriptor goes with the first byte and never again.
func (c *Channel) trySend(fd uintptr) (done bool) {
	s := &c.sent
	for {
		n, err := send(int(fd), s.bytes, s.control)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return false
		case errors.Is(err, unix.ETOOMANYREFS):
			s.err = ErrTooManyInFlight
			return true
		case err != nil:
			s.err = os.NewSyscallError("sendmsg", err)
			if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
				s.err = fmt.Errorf("%w: %w", c.WhyEnded(), s.err)
			}
			if s.n > 0 {
				s.err = &PartialError{s.err}
			}
			return true
		}
		s.n, s.bytes, s.control = s.n+n, s.bytes[n:], nil
		if len(s.bytes) == 0 {
			return true
		}
	}
}

// Receive reads at least one byte, and appends the descriptors that came with
// them. Where some did not arrive it appends Lost, and closes those that did. At
// the end it returns io.EOF.
func (c *Channel) Receive(into []byte, descriptors []int) (n int, _ []int, err error) {
	r := &c.received
	r.into = into
	if err := c.raw.Read(c.receive); err != nil {
		return 0, descriptors, err
	}
	if errors.Is(r.err, unix.ECONNRESET) {
		return 0, descriptors, io.EOF // it died with frames unread; all that it wrote was received before
	}
	if r.err != nil {
		return 0, descriptors, os.NewSyscallError("recvmsg", r.err)
	}
	if r.truncated {
		Close(r.descriptors)
		r.descriptors = []int{Lost}
	}
	if r.n == 0 {
		err = io.EOF
	}
	return r.n, append(descriptors, r.descriptors...), err
}

func (c *Channel) tryReceive(fd uintptr) (done bool) {
	r := &c.received
	r.n, r.descriptors, r.truncated, r.err = receive(int(fd), r.into, r.withRights)
	if r.err == nil {
		r.withRights = len(r.descriptors) > 0 || r.truncated
	}
	return !errors.Is(r.err, unix.EAGAIN)
}

// SetReceiveDeadline bounds the next Receive; zero: it may wait for ever.
func (c *Channel) SetReceiveDeadline(deadline time.Time) error {
	return c.socket.SetReadDeadline(deadline)
}

// End ends the channel in both directions. What the peer sent before can still be
// received, and nothing that it sends later: the kernel refuses that to it. macOS
// throws away what was not read: there the receiver may own what its giver thinks
// it kept.
func (c *Channel) End() {
	c.ended.Store(true)
	_ = c.socket.CloseWrite()
	_ = c.socket.CloseRead()
}

// Close closes the socket. Nobody may receive meanwhile: what waits in its queue is taken
// out before, for the kernel would close it.
func (c *Channel) Close() error {
	// It fails where the socket is closed already.
	_ = c.raw.Control(drain)
	return c.socket.Close()
}

// Socket returns the socket, for questions about its peer.
func (c *Channel) Socket() *net.UnixConn { return c.socket }
