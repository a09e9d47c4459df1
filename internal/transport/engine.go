package transport

import (
	"io"
	"net"
)

// An Engine lets connections wait for input without a goroutine for each.
type Engine interface {
	// Open makes a transport on top of another one, for connections to listeners of
	// that one.
	Open(under Transport) (ParkingTransport, error)
}

// A ParkingTransport is a transport whose connections can wait without a goroutine.
type ParkingTransport interface {
	Transport
	// TakeOver makes a ParkingConn of a connection that was accepted and not wrapped.
	// It fails for everything but sockets of the kernel. conn is then as it was, and
	// Wrap makes it a connection that waits in a goroutine.
	TakeOver(conn net.Conn) (ParkingConn, error)
	// Closer closes the connections that are left. Others may still be using them:
	// their calls then fail with net.ErrClosed. No connection may be made after that.
	io.Closer
}

// A ParkingConn is a connection that can wait without a goroutine.
type ParkingConn interface {
	net.Conn
	Carrier
	// ReadNow is Read without waiting. 0 without an error means that nothing has
	// arrived.
	ReadNow(b []byte) (int, error)
	// Park makes resume be called once, in a goroutine of its own, as soon as a Read
	// would not wait: when there are bytes, or the end of the stream, when the read
	// deadline has passed, or when the connection is closed. If that is already so,
	// Park reports false and does nothing. Nobody may Read until resume has been
	// called.
	Park(resume func()) bool
}
