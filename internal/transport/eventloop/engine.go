package eventloop

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

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

// An eventTransport makes connections of another transport wait in its sets. All but
// taking them over is that transport's.
type eventTransport struct {
	transport.Transport
	sets []*set
	next atomic.Uint64
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
