// Package transporttest holds every transport to the contract of package
// transport.
package transporttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
)

const timeout = 10 * time.Second

// Run runs the suite. newAddress returns an address that is free; a listener's
// own address is used for dialling, so that it may choose a port.
func Run(t *testing.T, subject transport.Transport, newAddress func(t *testing.T) string) {
	s := suite{subject, newAddress}
	t.Run("BytesArriveInOrder", s.bytesArriveInOrder)
	t.Run("CloseIsEndOfFile", s.closeIsEndOfFile)
	t.Run("ReadDeadline", s.readDeadline)
	t.Run("WriteDeadline", s.writeDeadline)
	t.Run("AcceptedConnectionsOutliveTheListener", s.outliveListener)
	t.Run("AddressIsFreeAfterClose", s.freeAfterClose)
	t.Run("DialWithoutListener", s.dialWithoutListener)
	t.Run("DialWithEndedContext", s.dialWithEndedContext)
	t.Run("Carrier", s.carrier)
}

type suite struct {
	subject    transport.Transport
	newAddress func(t *testing.T) string
}

func parse(t *testing.T, text string) address.Address {
	t.Helper()
	parsed, err := address.Parse(text, true)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func (s suite) listen(t *testing.T) (net.Listener, address.Address) {
	t.Helper()
	listener, err := s.subject.Listen(t.Context(), parse(t, s.newAddress(t)), transport.ListenOptions{GroupID: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener, parse(t, listener.Addr().Network()+":"+listener.Addr().String())
}

func (s suite) pair(t *testing.T) (caller, server net.Conn) {
	t.Helper()
	listener, a := s.listen(t)
	caller, err := s.subject.Dial(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server = s.accepted(t, accepted)
	for _, conn := range []net.Conn{caller, server} {
		conn.SetDeadline(time.Now().Add(timeout))
		t.Cleanup(func() { conn.Close() })
	}
	return caller, server
}

// accepted makes an accepted connection the subject's.
func (s suite) accepted(t *testing.T, conn net.Conn) net.Conn {
	t.Helper()
	engine, parks := s.subject.(transport.ParkingTransport)
	if !parks {
		return s.subject.Wrap(conn)
	}
	taken, err := engine.TakeOver(conn)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func (s suite) bytesArriveInOrder(t *testing.T) {
	caller, server := s.pair(t)
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	for _, way := range [][2]net.Conn{{caller, server}, {server, caller}} {
		sent := make(chan error, 1)
		go func() {
			_, err := way[0].Write(data)
			sent <- err
		}()
		got := make([]byte, len(data))
		if _, err := io.ReadFull(way[1], got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read: %v", err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

func (s suite) closeIsEndOfFile(t *testing.T) {
	caller, server := s.pair(t)
	caller.Write([]byte("x"))
	caller.Close()
	if data, err := io.ReadAll(server); err != nil || string(data) != "x" {
		t.Errorf("read %q, %v, want x and the end of file", data, err)
	}
}

func (s suite) readDeadline(t *testing.T) {
	caller, server := s.pair(t)
	server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v, want the deadline", err)
	}
	server.SetReadDeadline(time.Time{})
	caller.Write([]byte("x"))
	if _, err := server.Read(make([]byte, 1)); err != nil {
		t.Errorf("read after the deadline was lifted: %v", err)
	}
}

func (s suite) writeDeadline(t *testing.T) {
	caller, server := s.pair(t)
	for _, conn := range []net.Conn{caller, server} {
		conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write to a peer that does not read: %v, want the deadline", err)
		}
	}
}

func (s suite) outliveListener(t *testing.T) {
	listener, a := s.listen(t)
	caller, err := s.subject.Dial(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	listener.Close()
	caller.Write([]byte("x"))
	if _, err := server.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

func (s suite) freeAfterClose(t *testing.T) {
	listener, a := s.listen(t)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := s.subject.Listen(t.Context(), a, transport.ListenOptions{GroupID: -1})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func (s suite) dialWithoutListener(t *testing.T) {
	listener, a := s.listen(t)
	listener.Close()
	if conn, err := s.subject.Dial(t.Context(), a); err == nil {
		conn.Close()
		t.Error("dialled where nobody listens")
	}
}

func (s suite) dialWithEndedContext(t *testing.T) {
	_, a := s.listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if conn, err := s.subject.Dial(ctx, a); err == nil {
		conn.Close()
		t.Error("dialled in a context that had ended")
	}
}
