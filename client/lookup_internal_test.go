package client

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// TestForgottenEndpointIsConnectedTo: the call that was lost there asks, although the name of the host
// has another address meanwhile. Close finds the attempt, and the next lookup the endpoint.
func TestForgottenEndpointIsConnectedTo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := New("tcp:" + listener.Addr().String() + ",127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	route := c.core.route
	gone := route.at[0]
	route.mu.Lock()
	route.removeLocked(gone)
	route.mu.Unlock()
	route.closeRetired([]*endpoint{gone})
	if len(route.retired) != 0 {
		t.Fatal("an endpoint without a connection is not forgotten")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		gone.connect(context.Background(), c.core.clock.Ns()+uint64(wire.EndpointConnectMs*time.Millisecond))
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c.core.mu.Lock()
	attempt := c.core.anyOpening()
	c.core.mu.Unlock()
	if attempt == nil {
		t.Error("Close would not find the attempt")
	}
	route.mu.Lock()
	known := len(route.retired)
	route.mu.Unlock()
	if known != 1 {
		t.Errorf("%d endpoints are to be closed, want 1", known)
	}
	c.Close()
	<-ended
}

// TestSurplusAddressesAreLoggedOnce: a name is looked up every half minute, and more often while an
// address fails.
func TestSurplusAddressesAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	c, err := New("tcp:many.test:7000", WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	route := c.core.route
	var answers []netip.Addr
	for i := range 2 * wire.AddressEndpointsMax {
		answers = append(answers, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
	}
	route.mu.Lock()
	defer route.mu.Unlock()
	name := route.at[0].name
	for range 3 {
		name.replaceLocked(answers)
	}
	if len(name.answers) != wire.AddressEndpointsMax {
		t.Errorf("%d addresses are used, want %d", len(name.answers), wire.AddressEndpointsMax)
	}
	if lines := bytes.Count(log.Bytes(), []byte("\n")); lines != 1 {
		t.Errorf("%d lines are logged, want 1:\n%s", lines, log.Bytes())
	}
}
