package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const silence = 500 * time.Millisecond

// A server that says nothing, not even when it is asked, has gone.
func TestSilentServer(t *testing.T) {
	for name, how := range map[string]func(p *peer) client.Option{
		"the option says so": func(*peer) client.Option { return client.WithSilence(silence) },
		"the address says so": func(p *peer) client.Option {
			p.address += fmt.Sprintf("?silence=%d", silence.Milliseconds())
			return client.WithTimeout(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			overNetworks(t, func(t *testing.T, p *peer) {
				c := p.client(how(p), client.WithAttempts(1))
				late := measureLateness()
				done := begin(context.Background(), c, "echo", nil)
				conn := p.serve()
				conn.expect(wire.Request)
				began := time.Now()
				conn.expect(wire.Ping)
				got := wait(t, done)
				took := time.Since(began)
				expectFailure(t, got.err, status.Unavailable, status.OutcomeUnknown)
				if !strings.Contains(got.err.Error(), "nothing came from the server for 500ms") {
					t.Error(got.err)
				}
				expectOnTime(t, took, silence, late())
			})
		})
	}
}

// So it has if only a ping waits for it.
func TestSilentServerThatIsPinged(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		c := p.client(client.WithSilence(silence), client.WithAttempts(1))
		late, done := measureLateness(), make(chan error, 1)
		go func() { _, err := c.Ping(context.Background()); done <- err }()
		conn := p.serve()
		conn.expect(wire.Ping)
		began := time.Now()
		conn.expect(wire.Ping)
		expectFailure(t, <-done, status.Unavailable, status.OutcomeNotExecuted)
		expectOnTime(t, time.Since(began), silence, late())
	})
}

// A server that answers is there, however long its functions take, and nothing is asked while
// no call waits. A silence that is no longer than peer_ask_ms leaves time for an answer too.
func TestServerThatAnswersIsNotSilent(t *testing.T) {
	for _, silence := range []time.Duration{silence, wire.PeerAskMs * time.Millisecond} {
		t.Run(silence.String(), func(t *testing.T) {
			overNetworks(t, func(t *testing.T, p *peer) { answerWhileACallWaits(t, p, silence) })
		})
	}
}

func answerWhileACallWaits(t *testing.T, p *peer, silence time.Duration) {
	c := p.client(client.WithSilence(silence), client.WithAttempts(1))
	done := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	request := conn.expect(wire.Request)
	for began := time.Now(); time.Since(began) < 3*silence; {
		conn.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: conn.expect(wire.Ping).Payload})
	}
	conn.reply(request, []byte("late"))
	expectReply(t, wait(t, done), "late")
	must(t, conn.SetReadDeadline(time.Now().Add(2*silence)))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("while no call waits, the caller sends %d bytes (%v)", n, err)
	}
}

// A server that drains reads nothing, so it answers no PING. It is there until its functions end.
func TestServerThatDrainsIsNotSilent(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		c := p.client(client.WithSilence(silence), client.WithAttempts(1))
		done := begin(context.Background(), c, "echo", nil)
		conn := p.serve()
		request := conn.expect(wire.Request)
		conn.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: request.CallID}})
		select {
		case got := <-done:
			t.Fatal("the call has ended before its function:", got.err)
		case <-time.After(3 * silence):
		}
		conn.reply(request, []byte("late"))
		expectReply(t, wait(t, done), "late")
	})
}

// A server that still receives a request says nothing, and is there.
func TestSlowUploadIsNoSilence(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		raw, err := p.listener.SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 64<<10) }))
		must(t, err)
		c := p.client(client.WithSilence(silence), client.WithAttempts(1))
		const bytes, parts = 3 << 20, 64
		done := begin(context.Background(), c, "echo", make([]byte, bytes))
		conn := p.serve()
		part, slowly := make([]byte, bytes/parts), time.NewTicker(3*silence/parts)
		defer slowly.Stop()
		for range parts {
			<-slowly.C
			_, err := io.ReadFull(conn, part)
			must(t, err)
			conn.buffer = append(conn.buffer, part...)
		}
		conn.reply(conn.expect(wire.Request), []byte("received"))
		expectReply(t, wait(t, done), "received")
	})
}

// A server that stops receiving in the middle of a request has gone.
func TestSilenceWithinAnUpload(t *testing.T) {
	overNetworks(t, func(t *testing.T, p *peer) {
		c := p.client(client.WithSilence(silence), client.WithAttempts(1))
		done := begin(context.Background(), c, "echo", make([]byte, 3<<20))
		conn := p.serve()
		_, err := io.ReadFull(conn, make([]byte, wire.HeaderBytes))
		must(t, err)
		got := wait(t, done)
		if !errors.Is(got.err, status.Unavailable) || got.took > 4*silence+got.late {
			t.Errorf("the call ended after %v: %v", got.took, got.err)
		}
	})
}

// A call that waits for a server which is gone should not wait for long if there are others,
// and the next one goes to these.
func TestSilentServerOfSeveral(t *testing.T) {
	near, far := newRemotePeer(t, "tcp"), newRemotePeer(t, "tcp")
	c := newClient(t, near.address+" | "+far.address, client.WithAttempts(1))
	done := begin(context.Background(), c, "echo", nil)
	conn := near.serve()
	conn.reply(conn.expect(wire.Request), []byte("near"))
	expectReply(t, wait(t, done), "near")
	done = begin(context.Background(), c, "echo", nil)
	conn.expect(wire.Request)
	got := wait(t, done)
	expectFailure(t, got.err, status.Unavailable, status.OutcomeUnknown)
	expectOnTime(t, got.took, wire.TcpSilenceMs*time.Millisecond, got.late)
	done = begin(context.Background(), c, "echo", nil)
	conn = far.serve()
	conn.reply(conn.expect(wire.Request), []byte("far"))
	expectReply(t, wait(t, done), "far")
}

// A local server that does not answer was stopped, and may go on.
func TestLocalServersMayBeSilent(t *testing.T) {
	p := newPeer(t)
	c := p.client(client.WithSilence(100 * time.Millisecond))
	done := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	request := conn.expect(wire.Request)
	time.Sleep(300 * time.Millisecond)
	conn.reply(request, []byte("late"))
	expectReply(t, wait(t, done), "late")
}

func TestSilenceOutOfRange(t *testing.T) {
	for _, out := range []time.Duration{time.Millisecond, time.Hour, -2} {
		if _, err := client.New("tcp:127.0.0.1:1", client.WithSilence(out)); err == nil {
			t.Errorf("silence %v was accepted", out)
		}
	}
}
