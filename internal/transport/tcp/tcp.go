// Package tcp carries connections over TCP, for trusted networks or under a
// TLS listener. Package net disables Nagle's algorithm on its own.
package tcp

import (
	"context"
	"net"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
)

// Transport implements transport.Transport.
type Transport struct{}

// Listen binds host and port.
func (Transport) Listen(ctx context.Context, a address.Address, _ transport.ListenOptions) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", a.Target)
}

// Dial connects to host and port.
func (Transport) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", a.Target)
}

// Wrap returns conn.
func (Transport) Wrap(conn net.Conn) net.Conn { return conn }
