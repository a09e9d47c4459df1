// Package tcp carries connections over TCP, for trusted networks or under a
// TLS listener. Package net disables Nagle's algorithm on its own.
package tcp

import (
	"context"
	"net"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

// Transport implements transport.Transport.
type Transport struct{}

// Listen binds host and port.
func (Transport) Listen(ctx context.Context, a address.Address, _ transport.ListenOptions) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: keepAlive()}
	return config.Listen(ctx, "tcp", a.Target)
}

// Dial connects to host and port.
func (t Transport) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive()}
	conn, err := dialer.DialContext(ctx, "tcp", a.Target)
	if err != nil {
		return nil, err
	}
	return t.Wrap(conn), nil
}

// Wrap bounds how long the peer's host may leave unanswered what it is sent, if conn is
// no other kind of connection, and returns conn.
func (Transport) Wrap(conn net.Conn) net.Conn {
	if plain, ok := conn.(*net.TCPConn); ok {
		boundUnanswered(plain)
	}
	return conn
}

// keepAlive asks a peer that says nothing whether its host is still there.
func keepAlive() net.KeepAliveConfig {
	const every = wire.TcpKeepAliveMs * time.Millisecond
	return net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: wire.TcpUnansweredMs / wire.TcpKeepAliveMs}
}
