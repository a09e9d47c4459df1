package eventloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
)

// processorsPerSet is what one poller serves, by netpoll's own rule.
const processorsPerSet = 20

// Engine implements transport.Engine.
type Engine struct{}

// Open starts to wait for connections. It fails with what the kernel says when
// there are no descriptors left.
func (Engine) Open(under transport.Transport) (transport.ParkingTransport, error) {
	if err := startPollers(); err != nil {
		return nil, err
	}
	t := &eventTransport{Transport: under}
	for range pollers() {
		made, err := newSet()
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.sets = append(t.sets, made)
	}
	return t, nil
}

// An eventTransport makes connections of another transport wait in its sets.
type eventTransport struct {
	transport.Transport
	sets []*set
	next atomic.Uint64
}

// Dial connects.
func (t *eventTransport) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	conn, err := t.Transport.Dial(ctx, a)
	if err != nil {
		return nil, err
	}
	return t.Wrap(conn), nil
}

// Wrap takes over what can be; other connections are wrapped as the transport below
// does it.
func (t *eventTransport) Wrap(conn net.Conn) net.Conn {
	if parking, done := conn.(transport.ParkingConn); done {
		return parking
	}
	taken, err := t.TakeOver(conn)
	if err != nil {
		return t.Transport.Wrap(conn)
	}
	return taken
}

// TakeOver implements transport.ParkingTransport for a *net.TCPConn or *net.UnixConn.
func (t *eventTransport) TakeOver(conn net.Conn) (transport.ParkingConn, error) {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		return t.pick().takeOver(conn)
	}
	return nil, fmt.Errorf("the event loop cannot wait for a %T, only for sockets of package net", conn)
}

// pick returns the sets in turn.
func (t *eventTransport) pick() *set {
	return t.sets[t.next.Add(1)%uint64(len(t.sets))]
}

// Close closes the connections that are left and stops waiting.
func (t *eventTransport) Close() error {
	var failures []error
	for _, s := range t.sets {
		failures = append(failures, s.close())
	}
	return errors.Join(failures...)
}
