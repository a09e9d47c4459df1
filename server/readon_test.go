package server_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// A caller on another machine that does not look at its connection is no function that runs when the
// drain timeout ends.
func TestStopBesideACallerThatDoesNotLook(t *testing.T) {
	s := newServer(t, server.WithDrainTimeout(wire.DrainReadingMs*time.Millisecond/2))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	listener, err := s.Listen(ctx, "tcp:127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	offer := hello()
	if _, err := conn.Write(offer.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error("Serve:", err)
	}
}
