package client_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/wire"
)

// A server that sends sockets which linger holds up neither the call nor the end of
// the client, though their closing takes a minute.
func TestTrapsHoldUpNoCall(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	const traps, atMost = 5, 10 * time.Second
	p := newPeer(t)
	c := p.client(client.WithAttempts(1))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	begun := time.Now()
	done := begin(ctx, c, "echo", nil)
	conn := p.serve()
	frame := replyTo(conn.expect(wire.Request), nil)
	trapper := rightstest.NewTrapper(t)
	for range traps {
		// The client may have ended the connection by then.
		_ = trapper.LeaveTo(conn.Conn.(*net.UnixConn), frame.Append(nil))
	}
	if got := wait(t, done); got.err == nil {
		t.Error("descriptors that nobody agreed to did not end the call")
	}
	must(t, c.Close())
	if took := time.Since(begun); took > atMost {
		t.Errorf("a call with a timeout of a second, and Close, took %v", took)
	}
}
