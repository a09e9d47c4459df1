package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// These bound Peek if its caller does not.
const (
	// PeekBytesMax is the limit peek_bytes_max: 64 KiB.
	PeekBytesMax = wire.PeekBytesMax
	// PeekTimeout is the limit peek_timeout_ms: 10 seconds.
	PeekTimeout = wire.PeekTimeoutMs * time.Millisecond
	// PeekTimeoutMax is the most that programs should let their users choose instead: 5
	// minutes.
	PeekTimeoutMax = wire.PeekTimeoutMsCeiling * time.Millisecond
)

// peekBytesFirst is room for what most clients send first: the head of a request, or a
// ClientHello with a post-quantum key.
const peekBytesFirst = 4096

// Peek waits until enough reports true and returns the bytes that the connection's next
// reads will return. It does not consume them. Whenever more bytes have arrived, it
// calls enough, from this goroutine, with all that have arrived so far; enough must not
// keep the slice. If enough is nil, the first byte suffices.
//
// Peek looks at no more than limit bytes, or peek_bytes_max if limit is 0. If these are
// not enough the error is ErrTooLarge. If enough returns an error, Peek returns it
// within an *Error. If the client ends its side before enough is content, the error is
// io.ErrUnexpectedEOF, or io.EOF if the client sent nothing at all. Linux shows that
// end at once; on macOS unread bytes may hide it until the deadline. With every error
// Peek returns the bytes that did arrive.
//
// For a client that sends too slowly, Peek ends at the context's deadline, or after
// peek_timeout_ms if it has none, with a net.Error whose Timeout is true. Peek uses the
// connection's read deadline for that, and leaves none set. Nobody else may read from
// the connection in the meantime.
//
// The kernel shows no more than fits into its receive buffer. c must be a *net.TCPConn,
// a *net.UnixConn or a *Conn; for a *Conn the prefix counts as bytes that have arrived.
// On Windows the error is errors.ErrUnsupported. Read what is needed there and pass it
// on as Meta.Prefix.
func Peek(ctx context.Context, c syscall.Conn, limit int, enough func([]byte) (bool, error)) ([]byte, error) {
	if limit <= 0 {
		limit = wire.PeekBytesMax
	}
	if enough == nil {
		enough = func([]byte) (bool, error) { return true, nil }
	}
	p := &peeking{enough: enough, buffer: make([]byte, min(limit, peekBytesFirst)), limit: limit}
	if err := p.run(ctx, c); err != nil {
		return p.buffer[:p.seen], peekFailed(c, p.seen, err)
	}
	return p.buffer[:p.seen], nil
}

// A peeking is one run of Peek.
type peeking struct {
	enough func([]byte) (bool, error)
	limit  int

	// buffer holds what had been read before, then what the socket shows. Its first
	// seen bytes are valid, and enough has been asked about them.
	buffer []byte
	prefix int
	seen   int

	err error // why it is over, if enough was not content
}

func (p *peeking) run(ctx context.Context, c syscall.Conn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.overByPrefix(c) {
		return p.err
	}
	if own, ok := c.(*Conn); ok {
		c = own.stream // nobody else gets a copy of the descriptor
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	// Clients have usually sent something before they are accepted, so look before
	// setting a deadline and waiting.
	over := false
	if err := raw.Control(func(fd uintptr) { over = p.look(fd) }); err != nil {
		return err
	}
	if over {
		return p.err
	}
	release, err := boundRead(ctx, c)
	if err != nil {
		return err
	}
	err = raw.Read(p.look)
	release()
	if err != nil {
		return waitFailed(ctx, err)
	}
	return p.err
}

// overByPrefix reports whether the bytes that were read before are enough, or too many.
func (p *peeking) overByPrefix(c syscall.Conn) bool {
	conn, ok := c.(*Conn)
	if !ok || conn.Buffered() == 0 {
		return false
	}
	unread := conn.unread()
	for len(p.buffer) < min(len(unread), p.limit) {
		p.grow()
	}
	p.prefix = copy(p.buffer, unread)
	return p.judge(p.prefix)
}

// look looks at what has arrived and reports whether the peek is over. If it returns
// false, more is waited for.
func (p *peeking) look(fd uintptr) bool {
	ended := false
	for {
		full := len(p.buffer)
		n, again, err := peekSocket(fd, p.buffer[p.prefix:])
		switch {
		case err != nil:
			p.err = err
			return true
		case n == 0 && !again:
			p.err = p.endOfInput()
			return true
		case p.prefix+n > p.seen && p.judge(p.prefix+n):
			return true
		case p.seen == full:
			continue // the buffer has grown, so look again
		case ended:
			p.err = p.endOfInput()
			return true
		}
		// A FIN behind unread bytes wakes the poller once and does not show in a read.
		// What arrived before it is looked at once more.
		if p.seen == p.prefix || !inputEnded(fd) {
			return false
		}
		ended = true
	}
}

// judge asks enough about all that is there, and makes more room if there is none left.
func (p *peeking) judge(seen int) (over bool) {
	p.seen = seen
	done, err := p.enough(p.buffer[:seen])
	switch {
	case err != nil:
		p.err = err
		return true
	case done:
		return true
	case seen == p.limit:
		p.err = fmt.Errorf("%w: %d bytes were not enough", ErrTooLarge, seen)
		return true
	}
	if seen == len(p.buffer) {
		p.grow()
	}
	return false
}

func (p *peeking) grow() {
	grown := make([]byte, min(4*len(p.buffer), p.limit))
	copy(grown, p.buffer[:p.seen])
	p.buffer = grown
}

func (p *peeking) endOfInput() error {
	if p.seen == 0 {
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// boundRead makes the connection's reads fail when the context ends. release undoes
// that.
func boundRead(ctx context.Context, c syscall.Conn) (release func(), err error) {
	conn, ok := c.(interface{ SetReadDeadline(time.Time) error })
	if !ok {
		return nil, fmt.Errorf("%w: %T has no read deadline", errors.ErrUnsupported, c)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(wire.PeekTimeoutMs * time.Millisecond)
	}
	if err := conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		close(expired)
	})
	return func() {
		if !stop() {
			<-expired
		}
		_ = conn.SetReadDeadline(time.Time{})
	}, nil
}

// waitFailed returns why a wait has ended: the context knows better than the poller.
func waitFailed(ctx context.Context, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	return fmt.Errorf("%w: %w", context.DeadlineExceeded, os.ErrDeadlineExceeded)
}

func peekFailed(c syscall.Conn, seen int, err error) error {
	failure := &Error{Op: "peek", Err: fmt.Errorf("after %d bytes: %w", seen, err)}
	if conn, ok := c.(net.Conn); ok && conn.RemoteAddr() != nil {
		failure.Address = conn.RemoteAddr().String()
	}
	return failure
}
