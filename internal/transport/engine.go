package transport

import (
	"io"
	"net"
)

// An Engine lets connections wait without a goroutine each.
type Engine interface {
	// Open makes a transport of another one, for connections to a listener of that
	// transport.
	Open(under Transport) (ParkingTransport, error)
}

// A ParkingTransport is a transport whose connections can wait without a goroutine.
type ParkingTransport interface {
	Transport
	// TakeOver makes a ParkingConn of a connection that was accepted and not wrapped.
	// When it fails, which is so for all but sockets of the kernel, conn is as it was,
	// and Wrap makes it one that waits in a goroutine.
	TakeOver(conn net.Conn) (ParkingConn, error)
	// Closer closes the connections that are left, which others may still be using:
	// what they call then fails with net.ErrClosed. Nothing is to be made afterwards.
	io.Closer
}

// A ParkingConn is a connection that can wait without a goroutine.
type ParkingConn interface {
	net.Conn
	// ReadNow is Read without waiting: 0 and no error mean that nothing is there.
	ReadNow(b []byte) (int, error)
	// Park arranges that resume is called once, in a goroutine of its own, when a
	// Read would not wait: there are bytes, or the end, the read deadline has passed
	// or the connection is closed. Where that is so already it reports false and
	// does nothing. Nobody may Read until resume was called.
	Park(resume func()) bool
}

// A GatheringConn writes several buffers at once.
type GatheringConn interface {
	net.Conn
	// WriteBuffers writes all bytes of all buffers, or fails.
	WriteBuffers(buffers net.Buffers) error
}
