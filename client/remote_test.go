package client_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

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

// A caller that is alone reads for itself, so that no other goroutine is woken for its reply.
func TestLoneCallersReadOverANetwork(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		_, c, conn := aloneAt(t, p)
		first, request := callReading(t, context.Background(), c, conn)
		second := begin(context.Background(), c, "echo", nil)
		other := conn.expect(wire.Request)
		conn.reply(other, []byte("second"))
		expectReply(t, wait(t, second), "second")
		conn.reply(request, []byte("first"))
		expectReply(t, wait(t, first), "first")
		callAlone(t, c, conn)
	})
}

func TestDeadlineWhileTheCallerReadsOverANetwork(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		_, c, conn := aloneAt(t, p, client.WithTimeout(time.Minute))
		done := begin(shortContext(t), c, "echo", nil)
		request := conn.expect(wire.Request)
		conn.expect(wire.Cancel)
		expectTimeout(t, wait(t, done), status.OutcomeUnknown)
		conn.reply(request, []byte("late"))
		callAlone(t, c, conn)
	})
}

// A request to a server that has gone while nobody read would be taken, and its outcome would
// be unknown. So its caller looks first.
func TestServerGoesWhileIdleOverANetwork(t *testing.T) {
	for name, goes := range map[string]func(*peerConn){
		"it ends": func(c *peerConn) { c.end() },
		"it drains and ends": func(c *peerConn) {
			c.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: 1 << 20}})
			c.end()
		},
		"it complains and ends": func(c *peerConn) {
			c.fail(wire.Frame{}, status.InvalidArgument, status.OutcomeUnknown)
			c.end()
		},
		"it only drains": func(c *peerConn) { c.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: 1}}) },
	} {
		t.Run(name, func(t *testing.T) {
			overNetworks(t, func(t *testing.T, p *peer) {
				_, c, conn := aloneAt(t, p, client.WithAttempts(1))
				goes(conn)
				done := begin(context.Background(), c, "echo", nil)
				fresh := p.serve()
				fresh.reply(fresh.expect(wire.Request), []byte("fresh"))
				expectReply(t, wait(t, done), "fresh")
			})
		})
	}
}

// What has come while nobody read is no reason to open another connection.
func TestServerSaysSomethingWhileIdle(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		_, c, conn := aloneAt(t, p)
		conn.send(wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte("there?")})
		done := begin(context.Background(), c, "echo", nil)
		for {
			frame := conn.next()
			switch frame.Type {
			case wire.Pong:
			case wire.Ping: // by which the caller knows that what came was read
				conn.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: frame.Payload})
			default:
				conn.reply(frame, []byte("same"))
				expectReply(t, wait(t, done), "same")
				return
			}
		}
	})
}

func TestIdleConnectionIsReadOverANetwork(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		_, _, conn := aloneAt(t, p)
		conn.send(wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte("there?")})
		if pong := conn.expect(wire.Pong); string(pong.Payload) != "there?" {
			t.Fatalf("got %q", pong.Payload)
		}
	})
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
