package bus

import (
	"net"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
)

// A Conn is one end of a connection over the bus. It implements net.Conn,
// transport.OfferingCarrier and transport.Undelivered.
type Conn struct {
	stream *stream
	remote addr
}

var (
	_ net.Conn                  = (*Conn)(nil)
	_ transport.OfferingCarrier = (*Conn)(nil)
	_ transport.Undelivered     = (*Conn)(nil)
)

func newConn(s *stream, name string) *Conn {
	return &Conn{stream: s, remote: addr(s.peer.instance + "/" + name)}
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) { return c.stream.read(b) }

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (taken int, err error) {
	n, err := c.WriteBuffers(net.Buffers{b})
	return int(n), err
}

// WriteBuffers implements transport.Carrier.
func (c *Conn) WriteBuffers(buffers net.Buffers) (taken int64, err error) {
	left := 0
	for _, buffer := range buffers {
		left += len(buffer)
	}
	for parts := [][]byte(buffers); ; {
		var n int
		parts, n, err = c.stream.write(parts)
		taken, left = taken+int64(n), left-n
		if err != nil || left == 0 {
			return taken, err
		}
		if err := c.stream.awaitRoom(); err != nil {
			return taken, err
		}
	}
}

// Offer implements transport.OfferingCarrier.
func (c *Conn) Offer(take func(transport.Room) (done bool)) error {
	for !take(room{c.stream}) {
		if err := c.stream.awaitRoom(); err != nil {
			return err
		}
	}
	return nil
}

type room struct{ stream *stream }

// WriteNow implements transport.Room.
func (r room) WriteNow(b []byte) (int, error) {
	_, taken, err := r.stream.write([][]byte{b})
	return taken, err
}

// Certainty implements transport.Carrier.
func (c *Conn) Certainty() transport.Certainty { return transport.TakenOnly }

// UndeliveredFrom implements transport.Undelivered. The other end tells it when it ends the
// connection, and the engine when nobody was there to receive.
func (c *Conn) UndeliveredFrom() (offset uint64, known bool) { return c.stream.undeliveredFrom() }

// CloseWrite ends this side's stream. The other side can still send.
func (c *Conn) CloseWrite() error { return c.stream.finish() }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.stream.close()
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return addr(c.stream.own.instance) }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(deadline time.Time) error {
	if err := c.SetReadDeadline(deadline); err != nil {
		return err
	}
	return c.SetWriteDeadline(deadline)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(deadline time.Time) error {
	return c.stream.setDeadline(&c.stream.reading, deadline)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(deadline time.Time) error {
	return c.stream.setDeadline(&c.stream.writing, deadline)
}

// An addr is the instance of a hub and what is connected there.
type addr string

// Network implements net.Addr.
func (addr) Network() string { return "bus" }

// String implements net.Addr.
func (a addr) String() string { return string(a) }
