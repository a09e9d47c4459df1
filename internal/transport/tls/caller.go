package tls

import (
	"context"
	cryptotls "crypto/tls"
	"errors"
	"net"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tcp"
)

// A Calling makes the connections of callers. It implements transport.Securing.
type Calling struct {
	// Config returns the configuration for a connection to an address.
	Config func(a address.Address) (*cryptotls.Config, error)
}

// Dial connects to host and port. Secure must be called before anything is sent.
func (t Calling) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	// What is wrong with the files is worth more than what is wrong with the server.
	config, err := t.configFor(a)
	if err != nil {
		return nil, err
	}
	conn, err := tcp.Transport{Silence: a.Silence}.Dial(ctx, a)
	if err != nil {
		return nil, err
	}
	return newCaller(conn, config), nil
}

func (t Calling) configFor(a address.Address) (*cryptotls.Config, error) {
	config, err := t.Config(a)
	if err != nil {
		return nil, &transport.Unusable{Cause: err}
	}
	return forAddress(config, a), nil
}

// Over implements transport.Securing.
func (t Calling) Over(conn net.Conn, a address.Address) (net.Conn, error) {
	config, err := t.configFor(a)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return newCaller(tcp.Transport{Silence: a.Silence}.Wrap(conn), config), nil
}

// Wrap returns conn: accepted connections are for servers.
func (t Calling) Wrap(conn net.Conn) net.Conn { return conn }

// Listen fails: that is for servers.
func (t Calling) Listen(context.Context, address.Address, transport.ListenOptions) (net.Listener, error) {
	return nil, errors.New("nearcall: a client's option cannot listen: use package server/servertls")
}
