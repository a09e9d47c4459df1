// Package unixsocket carries connections over local stream sockets, by the rules of
// spec/transports.md: a socket is complete before it has its public name, a lock shows
// that its server lives, and descriptors that were not agreed on end the connection.
package unixsocket

import (
	"context"
	"net"
	"syscall"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/transport"
)

// Transport implements transport.Transport.
type Transport struct{ clean bool }

// For returns the Transport for connections that come from a listener. If Listen has made
// the listener, and the kernel has refused descriptors on its behalf since before anybody
// could connect, then it refuses them for all of its connections, and these need not be
// asked one by one.
func For(from net.Listener) Transport {
	own, ok := from.(*listener)
	return Transport{clean: ok && own.clean}
}

// Listen makes the socket, or binds the abstract name.
func (Transport) Listen(ctx context.Context, a address.Address, options transport.ListenOptions) (net.Listener, error) {
	if a.Abstract() {
		return listenUnix(ctx, a.Target, options)
	}
	return listenPath(ctx, a, options)
}

// Dial connects.
func (t Transport) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		// This is done before the server has the connection, so that it cannot have
		// sent any.
		return raw.Control(func(fd uintptr) { rights.Refuse(int(fd)) })
	}}
	conn, err := dialer.DialContext(ctx, "unix", a.Target)
	if err != nil {
		return nil, err
	}
	return t.Wrap(conn), nil
}

// Wrap makes reads of a *net.UnixConn notice descriptors; other connections are
// returned as they are.
func (t Transport) Wrap(conn net.Conn) net.Conn {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return conn
	}
	wrapped, err := newConn(socket, t.clean)
	if err != nil {
		return conn
	}
	return wrapped
}
