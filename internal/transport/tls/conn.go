// Package tls carries connections over TLS 1.3. It seals into memory: what crypto/tls
// writes goes into a buffer that never refuses, and a sender that does not wait empties
// the buffer. So it is known exactly what was taken, nothing that is half encrypted is ever
// taken back, and no write blocks.
package tls

import (
	"context"
	cryptotls "crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
)

// A Conn is one end of a connection over TLS. Its certainty is TakenOnly, and bytes that are
// sealed count as taken. It is not a syscall.Conn, because nobody else
// may read or write its socket.
type Conn struct {
	session *cryptotls.Conn
	sink    sink
	// owner has what a server needs to know of all its connections; nil at a caller.
	owner *Listening
	// explain says in words why the handshake has failed.
	explain func(error) error

	secured atomic.Bool
	names   []string
	plain   plain
	revoked revocation
}

func newCaller(socket net.Conn, config *cryptotls.Config) *Conn {
	c := new(Conn)
	c.sink.init(socket)
	c.session = cryptotls.Client(&c.sink, config)
	c.explain = explainServer(config.ServerName)
	return c
}

func newServer(socket net.Conn, owner *Listening) *Conn {
	c := &Conn{owner: owner, explain: explainCaller}
	c.sink.init(socket)
	c.session = cryptotls.Server(&c.sink, owner.current.Load().config)
	return c
}

// Secure agrees on keys with the peer and checks its certificate. It is bounded by the
// deadlines and by ctx. A *transport.Unidentified means that one side does not accept the
// other; on a server the connection can then still be written to, so that the caller can
// be told.
func (c *Conn) Secure(ctx context.Context) error {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })()
	}
	if c.owner != nil {
		c.sink.slots = c.owner.slots
	}
	err := c.session.Handshake()
	if c.owner != nil {
		c.sink.leaveSlot()
		c.sink.slots = nil
	}
	flushed := c.sink.flush()
	switch {
	case err != nil:
		return c.handshakeFailed(err)
	case flushed != nil:
		return flushed
	}
	c.secured.Store(true)
	if c.owner == nil {
		c.names = namesOf(c.session.ConnectionState().PeerCertificates)
		return nil
	}
	return c.owner.admit(c)
}

func (c *Conn) handshakeFailed(err error) error {
	var unknown cryptotls.RecordHeaderError
	if c.owner != nil && errors.As(err, &unknown) && unknown.Conn != nil {
		c.plain.begin(unknown.RecordHeader)
		return &transport.Unidentified{Text: "this address is for TLS, and the caller's first bytes are none of TLS: write tls: in place of tcp:", Cause: err}
	}
	return c.explain(err)
}

// Names returns the names in the peer's certificate, the most telling one first. It returns
// nil if the peer has shown none, or if Secure has not succeeded.
func (c *Conn) Names() []string { return c.names }

// Resumed reports whether the session of an earlier connection was taken up.
func (c *Conn) Resumed() bool { return c.session.ConnectionState().DidResume }

// Read implements transport.Carrier.
func (c *Conn) Read(b []byte) (int, error) {
	if c.plain.on {
		return c.plain.read(b)
	}
	n, err := c.session.Read(b)
	if c.sink.unsent.Load() { // an answer to a change of keys, or an alert
		_ = c.sink.flush()
	}
	if n > 0 {
		return n, nil
	}
	return 0, c.readFailure(err)
}

// readFailure returns why nothing was read.
func (c *Conn) readFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case c.sink.isClosed():
		return net.ErrClosed
	case isAlert(err):
		return c.explain(err)
	}
	return err
}

// ready makes sure that bytes can be sealed. Both sides call Secure first, so there is
// usually nothing to do.
func (c *Conn) ready() error {
	if c.secured.Load() || c.plain.on {
		return nil
	}
	return c.session.Handshake()
}

// Offer implements transport.OfferingCarrier.
func (c *Conn) Offer(take func(transport.Room) (done bool)) error {
	if err := c.ready(); err != nil {
		return err
	}
	for {
		if err := c.sink.writable(); err != nil {
			return err
		}
		if take(c) {
			return nil
		}
		if err := c.sink.awaitRoom(); err != nil {
			return err
		}
	}
}

// WriteNow implements transport.Room: it seals for as long as the socket takes all that was
// sealed before.
func (c *Conn) WriteNow(b []byte) (taken int, err error) {
	for taken < len(b) {
		if room, err := c.sink.hasRoom(); !room || err != nil {
			return taken, unlessTaken(taken, err)
		}
		n, err := c.seal(b[taken:min(len(b), taken+sealedBytesMax)])
		taken += n
		if err != nil {
			return taken, unlessTaken(taken, err)
		}
	}
	return taken, nil
}

// unlessTaken returns err if nothing was taken. Otherwise the next attempt fails for the
// same reason.
func unlessTaken(taken int, err error) error {
	if taken > 0 {
		return nil
	}
	return err
}

// seal encrypts b, and sends of it what there is room for. If the socket fails before it has
// taken anything, nothing was taken: it will not take anything later either. The goroutine that
// reads may send what is sealed here as well, so what counts is what the socket has taken since
// before b was sealed, whoever gave it to the socket. Preconditions: nothing else is sealed.
func (c *Conn) seal(b []byte) (taken int, err error) {
	before := c.sink.mark()
	if c.plain.on {
		_, err = c.sink.Write(b)
		taken = len(b)
	} else {
		taken, err = c.session.Write(b)
	}
	if err != nil {
		return taken, err
	}
	if err := c.sink.flush(); err != nil && !c.sink.hasTakenSince(before) {
		return 0, err
	}
	return taken, nil
}

// WriteBuffers implements transport.Carrier.
func (c *Conn) WriteBuffers(buffers net.Buffers) (taken int64, err error) {
	if err := c.ready(); err != nil {
		return 0, err
	}
	parts := parts{left: buffers}
	for {
		part := parts.next()
		if len(part) == 0 {
			return taken, nil
		}
		if err := c.sink.awaitRoom(); err != nil {
			return taken, err
		}
		n, err := c.seal(part)
		taken += int64(n)
		if err != nil {
			return taken, err
		}
	}
}

// Write implements io.Writer. It writes all of b, as WriteBuffers does.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.WriteBuffers(net.Buffers{b})
	return int(n), err
}

// Certainty implements transport.Carrier.
func (c *Conn) Certainty() transport.Certainty { return transport.TakenOnly }

// Quiet implements transport.QuietCarrier. A frame that crypto/tls holds cannot be seen here,
// and is found with the next reply. The end of the stream is seen: it is the end of the socket.
func (c *Conn) Quiet() (bool, error) {
	if c.sink.quiet == nil {
		return false, nil
	}
	return c.sink.quiet.Quiet()
}

// Acknowledged implements transport.QuietCarrier, for what was sealed.
func (c *Conn) Acknowledged() (bytes uint64, ago time.Duration, sending bool) {
	if c.sink.quiet == nil {
		return 0, 0, false
	}
	return c.sink.quiet.Acknowledged()
}

// Close ends the connection. What was taken and not sent is still sent, for
// write_timeout_ms at most; Gone tells when that is over.
func (c *Conn) Close() error {
	if !c.sink.beginClose() {
		return net.ErrClosed
	}
	if c.owner != nil {
		c.owner.forget(c)
	}
	// This seals that nothing follows, unless somebody is sealing or the keys are not agreed on.
	_ = c.session.Close()
	c.sink.finish()
	return nil
}

// Gone implements transport.LingeringCarrier.
func (c *Conn) Gone() <-chan struct{} { return c.sink.gone }

// LocalAddr and RemoteAddr are those of the socket.
func (c *Conn) LocalAddr() net.Addr  { return c.sink.socket.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr { return c.sink.socket.RemoteAddr() }

// SetReadDeadline implements transport.Carrier.
func (c *Conn) SetReadDeadline(deadline time.Time) error { return c.sink.SetReadDeadline(deadline) }

// SetWriteDeadline implements transport.Carrier. It bounds how long to wait for room. What
// was taken is sent in any case.
func (c *Conn) SetWriteDeadline(deadline time.Time) error { return c.sink.setRoomDeadline(deadline) }

// SetDeadline sets both.
func (c *Conn) SetDeadline(deadline time.Time) error {
	return errors.Join(c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline))
}

// A plain is a connection whose caller does not speak TLS. It can be told so in the clear.
type plain struct {
	on   bool
	head []byte // what the caller has sent, as far as crypto/tls tells
}

func (p *plain) begin(head [5]byte) { p.on, p.head = true, head[:] }

func (p *plain) read(b []byte) (int, error) {
	n := copy(b, p.head)
	if p.head = p.head[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
