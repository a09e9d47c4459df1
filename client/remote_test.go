package client_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/internal/transport/tls"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// newRemotePeer returns a peer that is called over "tcp" or "tls".
func newRemotePeer(t *testing.T, network string) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	p := &peer{t: t, listener: listener.(*net.TCPListener), address: network + ":" + listener.Addr().String(), welcome: newWelcome(0)}
	if network == "tls" {
		folder := t.TempDir()
		must(t, authority.Write(folder))
		files := tls.ServerFiles{Certificate: filepath.Join(folder, "server.pem"), Key: filepath.Join(folder, "server.key")}
		listening, err := tls.NewListening(files)
		must(t, err)
		p.wrap = listening.Wrap
		p.options = []client.Option{clienttls.With(clienttls.Files{Authorities: filepath.Join(folder, "ca.pem")})}
	}
	return p
}

// overNetworks runs a test with peers on each of them.
func overNetworks(t *testing.T, test func(t *testing.T, p *peer)) {
	for _, network := range []string{"tcp", "tls"} {
		t.Run(network, func(t *testing.T) { test(t, newRemotePeer(t, network)) })
	}
}

// Calls end in time although the server reads nothing of what is sent.
func TestDeadlinesWithAServerThatDoesNotRead(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		c := p.client()
		first := begin(context.Background(), c, "echo", nil)
		conn := p.serve()
		conn.reply(conn.expect(wire.Request), nil)
		expectReply(t, wait(t, first), "")
		var done []<-chan result
		for range 10 {
			ctx, cancel := context.WithTimeout(context.Background(), short)
			defer cancel()
			done = append(done, begin(ctx, c, "echo", make([]byte, 3<<20)))
		}
		for _, each := range done {
			got := wait(t, each)
			if !errors.Is(got.err, status.DeadlineExceeded) {
				t.Error(got.err)
			}
			expectOnTime(t, got.took, short, got.late)
		}
	})
}
