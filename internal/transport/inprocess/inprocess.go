// Package inprocess carries connections between goroutines, without a socket of the
// kernel. It shows that client and server need none, and serves tests that decide
// themselves how a connection ends.
package inprocess

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
)

// backlogMax is how many connections wait to be accepted.
const backlogMax = 128

// A Network is a transport whose addresses mean something only to itself. They look like
// those of TCP, and nothing of what is known about local sockets holds for them. The
// zero value is ready for use.
type Network struct {
	// Certainty is that of its connections.
	Certainty transport.Certainty

	// mu protects what follows.
	mu        sync.Mutex
	listeners map[string]*listener
	last      int
}

// Listen implements transport.Transport. A target without a port, or with port 0, gets a
// port that is free.
func (n *Network) Listen(_ context.Context, a address.Address, _ transport.ListenOptions) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host, port, err := net.SplitHostPort(a.Target)
	if err != nil {
		return nil, err
	}
	if port == "0" {
		n.last++
		port = strconv.Itoa(n.last)
	}
	name := net.JoinHostPort(host, port)
	if n.listeners[name] != nil {
		return nil, transport.ErrInUse
	}
	if n.listeners == nil {
		n.listeners = make(map[string]*listener)
	}
	made := &listener{network: n, name: endpoint(name), backlog: make(chan net.Conn, backlogMax), closed: make(chan struct{})}
	n.listeners[name] = made
	return made, nil
}

// Dial implements transport.Transport.
func (n *Network) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	found := n.listeners[a.Target]
	n.mu.Unlock()
	if found == nil {
		return nil, fmt.Errorf("nobody listens on %s: %w", a.Target, syscall.ECONNREFUSED)
	}
	caller, server := n.Pair(found.name)
	select {
	case found.backlog <- server:
		return caller, nil
	case <-found.closed:
		return nil, fmt.Errorf("nobody listens on %s any more: %w", a.Target, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Wrap implements transport.Transport.
func (n *Network) Wrap(conn net.Conn) net.Conn { return conn }

// Pair returns the two ends of a connection to an address.
func (n *Network) Pair(to net.Addr) (caller, server *Conn) {
	there, back := newHalf(), newHalf()
	return newConn(back, there, endpoint("127.0.0.1:0"), to, n.Certainty),
		newConn(there, back, to, endpoint("127.0.0.1:0"), n.Certainty)
}

// An endpoint is an address.
type endpoint string

// Network implements net.Addr.
func (endpoint) Network() string { return "tcp" }

// String implements net.Addr.
func (e endpoint) String() string { return string(e) }

type listener struct {
	network *Network
	name    endpoint
	backlog chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.backlog:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, string(l.name))
		close(l.closed)
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.name }
