package handoff

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Conn is a connection that came from another process. It is a net.Conn on the
// runtime's poller. Read returns the prefix first: the bytes that its giver had already
// read. Whatever package net can do with the bare connection, such as sendfile and
// splice, it can do with a Conn too.
//
// A *net.TCPConn that arrives in this way has keep-alive and TCP_NODELAY set as package
// net sets them for every new connection, whatever its giver had set.
type Conn struct {
	stream
	tcp  *net.TCPConn // nil for a Unix connection
	meta Meta
	link *link

	exchange  atomic.Pointer[exchange] // if an http.Server of Serve has the connection
	shared    atomic.Bool              // another process may have a copy of the descriptor
	closeOnce sync.Once
	closeErr  error

	mu   sync.Mutex
	left []byte // what is left of the prefix
}

// A stream is what *net.TCPConn and *net.UnixConn have in common.
type stream interface {
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Write([]byte) (int, error)
	CloseRead() error
	CloseWrite() error
	SyscallConn() (syscall.RawConn, error)

	net.Conn
}

// newConn returns a connection, and counts it with its link until it is closed. It
// takes over c, even if it fails.
func newConn(c net.Conn, m Meta, l *link) (*Conn, error) {
	bare, ok := c.(stream)
	network := c.LocalAddr().Network() // "unixgram" has all the methods, too
	if !ok || network != "tcp" && network != "unix" {
		return nil, errors.Join(errNotAStream, c.Close())
	}
	tcp, _ := c.(*net.TCPConn)
	l.hold()
	left := m.Prefix
	m.Prefix = nil // its memory can be freed once it is read
	return &Conn{stream: bare, tcp: tcp, meta: m, link: l, left: left}, nil
}

var errNotAStream = errors.New("handoff: it is no stream connection")

// Meta returns what came with the connection, without the prefix, which Read returns.
func (c *Conn) Meta() Meta { return c.meta }

// Buffered returns how many bytes of the prefix have not been read yet.
func (c *Conn) Buffered() int { return len(c.unread()) }

// unread returns what is left of the prefix.
func (c *Conn) unread() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// NetConn returns the underlying *net.TCPConn or *net.UnixConn. Reading from that one
// skips what is left of the prefix.
func (c *Conn) NetConn() net.Conn {
	c.shared.Store(true)
	return c.stream
}

// SyscallConn gives access to the descriptor.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	c.shared.Store(true)
	return c.stream.SyscallConn()
}

// LocalAddr returns the address that the giver stated, or else that of the socket.
func (c *Conn) LocalAddr() net.Addr {
	if c.meta.Local != nil {
		return c.meta.Local
	}
	return c.stream.LocalAddr()
}

// RemoteAddr returns the address that the giver stated, or else that of the socket.
// When a client has gone, the kernel no longer knows its address; then the address is
// empty, but not nil.
func (c *Conn) RemoteAddr() net.Addr {
	if c.meta.Remote != nil {
		return c.meta.Remote
	}
	if a := c.stream.RemoteAddr(); a != nil {
		return a
	}
	if c.tcp != nil {
		return &net.TCPAddr{}
	}
	return &net.UnixAddr{Net: "unix"}
}

// Read returns bytes of the prefix as long as there are any, and then does not wait for
// more.
func (c *Conn) Read(p []byte) (int, error) {
	if x := c.exchange.Load(); x != nil {
		return x.read(c, p)
	}
	return c.read(p)
}

func (c *Conn) read(p []byte) (int, error) {
	if n := c.readPrefix(p); n > 0 {
		return n, nil
	}
	return c.stream.Read(p)
}

func (c *Conn) readPrefix(p []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(p, c.left)
	if c.left = c.left[n:]; len(c.left) == 0 {
		c.left = nil
	}
	return n
}

// ReadFrom implements io.ReaderFrom in the way the bare connection does.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if c.tcp != nil {
		return c.tcp.ReadFrom(r)
	}
	return io.Copy(writerOnly{c.stream}, r)
}

// WriteTo implements io.WriterTo: it writes the prefix and then goes on as the bare
// connection does.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	c.mu.Lock()
	prefix := c.left
	c.left = nil
	c.mu.Unlock()
	var written int64
	if len(prefix) > 0 {
		n, err := w.Write(prefix)
		written = int64(n)
		if err != nil {
			return written, err
		}
	}
	var n int64
	var err error
	if c.tcp != nil {
		n, err = c.tcp.WriteTo(w)
	} else {
		n, err = io.Copy(w, readerOnly{c.stream})
	}
	return written + n, err
}

// These types hide the methods through which io.Copy would call back.
type (
	writerOnly struct{ io.Writer }
	readerOnly struct{ io.Reader }
)

// SetKeepAliveConfig does what that of net.TCPConn does. It fails for a Unix
// connection.
func (c *Conn) SetKeepAliveConfig(config net.KeepAliveConfig) error {
	if c.tcp == nil {
		return errors.ErrUnsupported
	}
	return c.tcp.SetKeepAliveConfig(config)
}

// SetNoDelay does what that of net.TCPConn does. It fails for a Unix connection.
func (c *Conn) SetNoDelay(noDelay bool) error {
	if c.tcp == nil {
		return errors.ErrUnsupported
	}
	return c.tcp.SetNoDelay(noDelay)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if x := c.exchange.Load(); x != nil {
		return x.setDeadline(c, t)
	}
	return c.stream.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.stream.SetWriteDeadline(t))
}

// Close ends the connection. It tells the client even if there are still copies of the
// descriptor that the giver has not closed yet, or that wait in the channel of a
// process which was to get the connection and was stopped. After NetConn or SyscallConn
// was called, there may be copies that are meant to live on; then Close closes only
// this one.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		if !c.shared.Load() {
			_ = c.stream.CloseWrite() // it fails if the client has ended the connection
		}
		c.closeErr = c.stream.Close()
		c.link.release(1)
	})
	return c.closeErr
}

// HandBack gives the connection to the process that it came from, over the channel by
// which it came. unread are bytes that were read here but belong to whoever serves the
// connection next; what is left of the prefix follows them. Success and errors mean
// what they mean for Peer.SendConn. The error is errors.ErrUnsupported if that process
// does not take connections back.
func (c *Conn) HandBack(ctx context.Context, unread []byte) error {
	m := c.meta
	m.Prefix = unread
	return sendConn(ctx, c.link, "hand back", c, m)
}
