package tls_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tls"
	"github.com/nearcall/nearcall/internal/transport/transporttest"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

func TestTransport(t *testing.T) {
	transporttest.Run(t, newPair(t), func(*testing.T) string { return "tls:127.0.0.1:0" })
}

// A pair is both sides of the transport. Each agrees on keys in a goroutine of its own, as
// callers and servers do before they send anything.
type pair struct {
	calling   tls.Calling
	listening *tls.Listening
	agreed    *sync.WaitGroup
}

func newPair(t *testing.T) pair {
	t.Helper()
	folder := certificates(t)
	listening, err := tls.NewListening(tls.ServerFiles{Certificate: filepath.Join(folder, "server.pem"), Key: filepath.Join(folder, "server.key")})
	if err != nil {
		t.Fatal(err)
	}
	agreed := new(sync.WaitGroup)
	t.Cleanup(agreed.Wait)
	return pair{tls.CallingFrom(tls.Files{Authorities: filepath.Join(folder, "ca.pem")}), listening, agreed}
}

func certificates(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := authority.Write(folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

func (p pair) Listen(ctx context.Context, a address.Address, options transport.ListenOptions) (net.Listener, error) {
	made, err := p.listening.Listen(ctx, a, options)
	return listener{made, p}, err
}

func (p pair) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	conn, err := p.calling.Dial(ctx, a)
	if err == nil {
		p.secure(conn)
	}
	return conn, err
}

// Wrap waits until both sides agree.
func (p pair) Wrap(conn net.Conn) net.Conn {
	p.agreed.Wait()
	return conn
}

func (p pair) secure(conn net.Conn) {
	p.agreed.Go(func() { _ = conn.(transport.Identified).Secure(context.Background()) })
}

type listener struct {
	net.Listener
	of pair
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.of.secure(conn)
	}
	return conn, err
}

// What was sealed counts as taken, and a writer that is told so must not write it again.
func TestNothingIsTakenTwiceAfterAShortWrite(t *testing.T) {
	caller, server := agreedPair(t)
	data := make([]byte, 8<<20)
	for i := range data {
		data[i] = byte(i*7 ^ i>>11)
	}
	taken := fill(t, caller, data)
	if taken == 0 || taken == len(data) {
		t.Fatalf("%d bytes were taken; want a part of %d", taken, len(data))
	}
	sent := make(chan error, 1)
	go func() {
		_, err := caller.Write(data[taken:])
		sent <- err
	}()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("what was read is not what was written (%v)", err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// A deadline for writing, even one that has passed, does not keep what was taken from being
// sent: a caller that is told to drain sets one.
func TestWhatWasTakenIsSentAfterTheDeadline(t *testing.T) {
	caller, server := agreedPair(t)
	data := make([]byte, 32<<20)
	caller.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	taken, err := caller.Write(data)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("write to a peer that does not read: %v, want the deadline", err)
	}
	caller.SetWriteDeadline(time.Unix(1, 0))
	if _, err := io.ReadFull(server, make([]byte, taken)); err != nil {
		t.Fatalf("%d bytes were taken, and did not arrive: %v", taken, err)
	}
	if err := caller.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := caller.Write([]byte("x")); err != nil {
		t.Errorf("write after the deadline was lifted: %v", err)
	}
}

// A connection that is closed still sends what it has taken, for a limited time; Gone tells
// when that is over.
func TestAClosedConnectionIsGoneWhenAllIsSent(t *testing.T) {
	caller, server := agreedPair(t)
	taken := fill(t, caller, make([]byte, 32<<20))
	if err := caller.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-caller.Gone():
		t.Fatal("the connection is gone, and its peer has read nothing")
	default:
	}
	if _, err := caller.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read from a closed connection: %v", err)
	}
	if got, err := io.ReadAll(server); err != nil || len(got) != taken {
		t.Errorf("%d bytes arrived (%v), and %d were taken", len(got), err, taken)
	}
	select {
	case <-caller.Gone():
	case <-time.After(patience):
		t.Error("all has arrived, and the connection is not gone")
	}
}

// fill writes until there is no more room, and returns how much was taken.
func fill(t *testing.T, to *tls.Conn, data []byte) (taken int) {
	t.Helper()
	for {
		n := 0
		err := to.Offer(func(room transport.Room) (done bool) {
			var failure error
			if n, failure = room.WriteNow(data[taken:]); failure != nil {
				t.Error(failure)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if taken += n; n == 0 {
			return taken
		}
	}
}

const patience = 10 * time.Second

// agreedPair returns both ends of a connection.
func agreedPair(t *testing.T) (caller, server *tls.Conn) {
	t.Helper()
	p := newPair(t)
	listener, err := p.Listen(t.Context(), address.Address{Network: "tls", Target: "127.0.0.1:0"}, transport.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := p.Dial(t.Context(), address.Address{Network: "tls", Target: listener.Addr().String(), Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p.agreed.Wait()
	for _, conn := range []net.Conn{dialled, accepted} {
		t.Cleanup(func() { conn.Close() })
		conn.SetReadDeadline(time.Now().Add(patience))
	}
	return dialled.(*tls.Conn), accepted.(*tls.Conn)
}
