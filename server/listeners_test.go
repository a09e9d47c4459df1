package server_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
)

// A pipeListener is a listener without sockets: what is sent to its channel is accepted.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), ended: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddress{} }

func (l *pipeListener) dial(t *testing.T) net.Conn {
	t.Helper()
	caller, served := net.Pipe()
	l.conns <- namelessConn{served}
	return caller
}

type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "in this process" }

// A namelessConn does not know who is at its other end, as package net allows.
type namelessConn struct{ net.Conn }

func (namelessConn) RemoteAddr() net.Addr { return nil }

// TestListenersOfAnyKind: what Serve is given need not come from Listen, nor be a socket.
func TestListenersOfAnyKind(t *testing.T) {
	issuer := httptest.NewTLSServer(nil)
	t.Cleanup(issuer.Close)
	theirs := &tls.Config{Certificates: issuer.TLS.Certificates}
	ours := issuer.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	ours.ServerName = "example.com"
	pipes := newPipeListener()
	for name, row := range map[string]struct {
		listener net.Listener
		dial     func(t *testing.T) net.Conn
	}{
		"TLS over TCP":            secured(t, "tcp", "127.0.0.1:0", theirs, ours),
		"TLS over a local socket": secured(t, "unix", filepath.Join(t.TempDir(), "s"), theirs, ours),
		"pipes":                   {pipes, pipes.dial},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			register(t, s, "add", func(a, b int64) int64 { return a + b })
			register(t, s, "echo", func(data []byte) []byte { return data })
			served := make(chan error, 1)
			ctx, stop := context.WithCancel(context.Background())
			go func() { served <- s.Serve(ctx, row.listener) }()
			c := relayed(t, row.dial(t))
			c.greet(hello())
			c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
			if value, failure := c.call("add", int64(3), int64(4)); value != int64(7) {
				t.Errorf("add = %v, %v", value, failure)
			}
			sent := make([]byte, 1<<20)
			if value, failure := c.call("echo", sent); failure != nil || len(value.([]byte)) != len(sent) {
				t.Errorf("echo of %d bytes: %v", len(sent), failure)
			}
			if answer := relayed(t, row.dial(t)).simple(`{"f":"add","a":[1,2]}`); !answer.OK {
				t.Errorf("the simple protocol answers %+v", answer)
			}
			stop()
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
}

// secured listens with TLS.
func secured(t *testing.T, network, address string, theirs, ours *tls.Config) (row struct {
	listener net.Listener
	dial     func(t *testing.T) net.Conn
}) {
	t.Helper()
	listener, err := tls.Listen(network, address, theirs)
	if err != nil {
		t.Fatal(err)
	}
	row.listener = listener
	row.dial = func(t *testing.T) net.Conn {
		t.Helper()
		conn, err := tls.Dial(network, listener.Addr().String(), ours)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	return row
}

// relayed returns a caller whose bytes travel over a connection of any kind.
func relayed(t *testing.T, over net.Conn) *caller {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := dial(t, path)
	inner, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close(); over.Close() })
	go func() { _, _ = io.Copy(over, inner) }()
	go func() { _, _ = io.Copy(inner, over); inner.Close() }()
	return c
}
