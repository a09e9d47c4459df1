//go:build unix

package handoff

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/internal/address"
)

// connect opens a channel to the process that listens at an address.
func connect(ctx context.Context, text string) (*channel.Channel, Credentials, error) {
	at, err := unixAddress(text)
	if err != nil {
		return nil, Credentials{}, err
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", at.Target)
	if err != nil {
		return nil, Credentials{}, err
	}
	return channelOver(c)
}

// channelOver makes a channel of a socket and takes the socket over, even if it fails.
func channelOver(conn net.Conn) (*channel.Channel, Credentials, error) {
	socket := conn.(*net.UnixConn)
	credentials, err := credentialsOf(socket)
	if err != nil {
		return nil, Credentials{}, errors.Join(err, socket.Close())
	}
	ch, err := channel.Open(socket)
	if err != nil {
		return nil, Credentials{}, errors.Join(err, socket.Close())
	}
	return ch, credentials, nil
}

// listenAt makes the socket of an address.
func listenAt(address string, c *config) (net.Listener, error) {
	at, err := unixAddress(address)
	if err != nil {
		return nil, err
	}
	return listen(at, c)
}

// ListenOn is Listen for a Unix socket that already listens, because it was inherited
// or taken over. The Listener owns it from then on. If an option is out of range,
// Accept returns the error.
func ListenOn(socket *net.UnixListener, options ...Option) *Listener {
	c := newConfig(options)
	passRights(socket, c.bare)
	return newListener(socket, c)
}

func unixAddress(text string) (address.Address, error) {
	at, err := address.Parse(text, false)
	if err != nil && !errors.Is(err, address.ErrAbstract) {
		return at, err
	}
	if err != nil || at.Network != "unix" {
		return at, fmt.Errorf("%w: %s: descriptors travel over unix:/path only", errors.ErrUnsupported, text)
	}
	return at, nil
}
