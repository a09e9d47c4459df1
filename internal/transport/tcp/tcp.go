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
type Transport struct {
	// Silence is how long the peer's host may leave unanswered what it is sent. If it is not
	// positive, that is tcp_unanswered_ms.
	Silence time.Duration
}

// Listen binds host and port.
func (t Transport) Listen(ctx context.Context, a address.Address, _ transport.ListenOptions) (net.Listener, error) {
	config := net.ListenConfig{KeepAliveConfig: t.keepAlive()}
	return config.Listen(ctx, "tcp", a.Target)
}

// Dial connects to host and port.
func (t Transport) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: t.keepAlive()}
	conn, err := dialer.DialContext(ctx, "tcp", a.Target)
	if err != nil {
		return nil, err
	}
	return t.Wrap(conn), nil
}

// Wrap bounds how long the peer's host may leave unanswered what it is sent, if conn is
// no other kind of connection, and returns conn.
func (t Transport) Wrap(conn net.Conn) net.Conn {
	if plain, ok := conn.(*net.TCPConn); ok {
		boundUnanswered(plain, t.unanswered())
	}
	return conn
}

func (t Transport) unanswered() time.Duration {
	if t.Silence > 0 {
		return t.Silence
	}
	return wire.TcpUnansweredMs * time.Millisecond
}

// keepAlive asks a peer that says nothing whether its host is still there. The kernel counts
// such questions in seconds.
func (t Transport) keepAlive() net.KeepAliveConfig {
	every := wire.TcpKeepAliveMs * time.Millisecond
	if t.Silence > 0 {
		every = min(every, max(time.Second, t.Silence/2))
	}
	return net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: int(max(1, t.unanswered()/every))}
}
