package transport

import (
	"context"
	"io"
	"net"
	"syscall"
	"time"
)

// A Carrier carries the bytes of one connection between a caller and a server: one
// ordered stream each way. Connections of both sides are built from one and know nothing
// else of what moves their bytes. Which side has dialled makes no difference to it.
//
// One goroutine at a time reads, and one at a time writes. Any goroutine may set
// deadlines and close.
type Carrier interface {
	// Read reads at least one byte, unless it fails. It waits until the read deadline,
	// and then fails with os.ErrDeadlineExceeded. At the end of the stream it fails with
	// io.EOF or, if Certainty is UnreadReported and the peer left bytes unread, with
	// syscall.ECONNRESET. Write writes all of its bytes, as WriteBuffers does.
	io.ReadWriteCloser
	// WriteBuffers writes all bytes of all buffers in order, and returns how many of
	// them were taken. These are fewer only with an error. It waits until the write
	// deadline, and then fails with os.ErrDeadlineExceeded; the connection goes on.
	// It may change the slice, but not the bytes.
	WriteBuffers(buffers net.Buffers) (taken int64, err error)
	// SetReadDeadline and SetWriteDeadline also apply to a call that already waits. The
	// zero time stands for no deadline.
	SetReadDeadline(deadline time.Time) error
	SetWriteDeadline(deadline time.Time) error
	// Certainty says what is known of the bytes that were taken. It never changes.
	Certainty() Certainty
}

// A Certainty says what this side knows about bytes that the carrier has taken, once the
// connection has ended. Bytes that were not taken never reach the peer: that is certain
// with every carrier. spec/call-semantics.md says what follows for calls.
type Certainty uint8

const (
	// TakenOnly means that nothing is known of bytes that were taken: the peer may have
	// read them or not, however the connection ended.
	TakenOnly Certainty = iota
	// UnreadReported means that the end of the stream says whether the peer had read
	// everything: the reset is reported if bytes were left unread, and at no other time.
	UnreadReported
)

// A QuietCarrier can tell whether nothing has arrived, so that a caller may leave it unread
// while no call waits.
type QuietCarrier interface {
	Carrier
	// Quiet reports whether nothing has arrived and the stream has not ended, as far as the
	// kernel tells at once. It never waits. Nobody else may be reading.
	Quiet() (quiet bool, err error)
	// Acknowledged returns how many bytes the peer's host has acknowledged, how long ago it
	// has last acknowledged any, and whether there are further ones that it has not. Any
	// goroutine may call it.
	Acknowledged() (bytes uint64, ago time.Duration, sending bool)
}

// An Undelivered carrier may know, once its connection has ended, that some of the bytes
// which it had taken never reached the peer.
type Undelivered interface {
	// UndeliveredFrom returns how many of the bytes that were taken may have been delivered:
	// those behind certainly were not, and never will be.
	UndeliveredFrom() (offset uint64, known bool)
}

// An Identified carrier makes sure who the peer is before any byte of the protocol.
type Identified interface {
	// Secure makes the handshake, within the context's time.
	Secure(ctx context.Context) error
	// Names returns the names of the peer's certificate, or nil if it has shown none. A
	// certificate need not have names.
	Names() []string
}

// An OfferingCarrier also takes bytes from a writer that must not wait.
type OfferingCarrier interface {
	Carrier
	// Offer calls take at once, and again whenever there may be room, until it returns
	// true. It fails when the write deadline passes or the carrier is closed.
	Offer(take func(Room) (done bool)) error
}

// A Room takes bytes without waiting. It is valid only within take. The Room of a
// LocalConn is a LocalRoom.
type Room interface {
	// WriteNow takes as many bytes as there is room for. None without an error means
	// that there is no room.
	WriteNow(b []byte) (taken int, err error)
}

// A LocalRoom takes descriptors as well.
type LocalRoom interface {
	Room
	// SendNow is WriteNow with the descriptors attached to the first byte. It fails with
	// ErrNotSent if the kernel does not let them pass for now; nothing was taken then.
	SendNow(b []byte, descriptors []int) (taken int, err error)
}

// Carry makes a carrier of a connection. One that is a carrier is returned as it is. One
// that has a descriptor of the kernel offers room; others, such as those of crypto/tls,
// do not.
func Carry(conn net.Conn) Carrier {
	if carrier, ok := conn.(Carrier); ok {
		return carrier
	}
	if raw := RawOf(conn); raw != nil {
		return &socketCarrier{stream{conn}, SocketOffer{Raw: raw}, SocketQuiet{Raw: raw}}
	}
	return stream{conn}
}

// A stream is a connection of which nothing is known.
type stream struct{ net.Conn }

// WriteBuffers implements Carrier.
func (s stream) WriteBuffers(buffers net.Buffers) (int64, error) { return buffers.WriteTo(s.Conn) }

// Certainty implements Carrier.
func (s stream) Certainty() Certainty { return CertaintyOf(s.Conn) }

// CertaintyOf returns the certainty of a connection of package net. Only the kernel's
// local sockets report what was left unread.
func CertaintyOf(conn net.Conn) Certainty {
	_, socket := conn.(syscall.Conn)
	if remote := conn.RemoteAddr(); socket && remote != nil && remote.Network() == "unix" {
		return UnreadReported
	}
	return TakenOnly
}

// A socketCarrier is a connection over a socket of the kernel.
type socketCarrier struct {
	stream
	SocketOffer
	SocketQuiet
}
