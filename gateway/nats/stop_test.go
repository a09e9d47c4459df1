package gateway_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// hold begins a call that lasts until the server releases it, and returns where its error comes.
func (p *pair) hold(t *testing.T) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	c := callAt(t, p.importer.listen)
	go func() { ended <- c.Call(context.Background(), "hold", nil) }()
	select {
	case <-p.server.holds:
	case <-time.After(patience):
		t.Fatal("the call has not begun")
	}
	return ended
}

// Functions that change while a gateway stops do not make it begin another local server, for which
// it would wait for ever.
func TestChangeWhileStopping(t *testing.T) {
	p := startPair(t, gateway.Config{DrainTimeout: patience}, gateway.Export{})
	call := p.hold(t)
	p.importer.cancel()
	await(t, "the end of listening", func() bool {
		conn, err := net.Dial("unix", strings.TrimPrefix(p.importer.listen, "unix:"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	must(t, gateway.Renew(p.importer.Gateway))
	close(p.server.release)
	select {
	case err := <-p.importer.ended:
		must(t, err)
		p.importer.ended <- nil
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
	must(t, <-call)
}

// A call goes on when the local server is replaced, however long it takes. The drain timeout counts
// when the gateway stops.
func TestLongCallWhileFunctionsChange(t *testing.T) {
	const timeout = 50 * time.Millisecond
	p := startPair(t, gateway.Config{DrainTimeout: timeout}, gateway.Export{})
	call := p.hold(t)
	must(t, gateway.Renew(p.importer.Gateway))
	select {
	case err := <-call:
		t.Fatalf("the call has ended: %v", err)
	case <-time.After(10 * timeout):
	}
	p.server.release <- struct{}{}
	must(t, <-call)

	call = p.hold(t)
	must(t, gateway.Renew(p.importer.Gateway))
	must(t, p.importer.stop())
	if err := <-call; err == nil {
		t.Error("the call has ended, although nobody has released it")
	}
}
