//go:build unix

package handoff_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/handoff"
)

func TestUnixConnectionsAndSocketPairs(t *testing.T) {
	l, address := listen(t)
	p := dial(t, address)
	unixListener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unixListener.Close() }()
	client, err := net.Dial("unix", unixListener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	served, err := unixListener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conns := accepted(l)
	if err := p.SendConn(testContext(t), served, handoff.Meta{Prefix: []byte("one ")}); err != nil {
		t.Fatal(err)
	}
	c := <-conns
	if _, ok := c.NetConn().(*net.UnixConn); !ok {
		t.Errorf("it is a %T", c.NetConn())
	}
	if err := c.SetNoDelay(true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SetNoDelay of a Unix connection: %v", err)
	}
	go func() {
		_, _ = io.Copy(c, c) // WriteTo and ReadFrom
		_ = c.CloseWrite()
	}()
	if _, err := io.WriteString(client, "two"); err != nil {
		t.Fatal(err)
	}
	if err := client.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); string(got) != "one two" || err != nil {
		t.Errorf("echoed %q, %v", got, err)
	}
}

// A datagram socket has all the methods of a connection, and is none.
func TestDatagramSocketsAreRefused(t *testing.T) {
	l, address := listen(t)
	go func() { _, _ = l.Accept() }()
	folder := t.TempDir()
	name := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(folder, "one")}
	socket, err := net.ListenUnixgram("unixgram", name)
	must(t, err)
	defer func() { _ = socket.Close() }()
	connected, err := net.DialUnix("unixgram", nil, name)
	must(t, err)
	defer func() { _ = connected.Close() }()
	err = dial(t, address).SendConn(testContext(t), connected, handoff.Meta{})
	var failure *handoff.Error
	if !errors.As(err, &failure) || failure.Reason != handoff.ReasonKind {
		t.Errorf("a datagram socket was given: %v", err)
	}
}
