package client_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// hesitate checks that the caller goes on waiting for its welcome.
func (c *peerConn) hesitate(length time.Duration) {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(length)))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("the caller does not wait for its welcome: %v", err)
	}
	must(c.t, c.SetReadDeadline(time.Now().Add(patience)))
}

// newNamedPeer is newRemotePeer for a host that has a name and one address.
func newNamedPeer(t *testing.T) *peer {
	t.Helper()
	p := newRemotePeer(t, "tcp")
	_, port, err := net.SplitHostPort(p.listener.Addr().String())
	must(t, err)
	newNameServer(t, map[string][]net.IP{"slow.test": parseIPs("127.0.0.1")})
	p.address = "tcp:slow.test:" + port
	return p
}

// An endpoint that is the only one, or the last one that is left, has all the time of the call.
func TestTimeOfTheLastEndpoint(t *testing.T) {
	const limit = 100 * time.Millisecond
	for name, lead := range map[string]string{"the only answer of a name": "", "the last of two": "unix:/nonexistent/s | "} {
		t.Run(name, func(t *testing.T) {
			p := newNamedPeer(t)
			c := newClient(t, lead+p.address, client.WithEndpointConnectTimeout(limit), client.WithAttempts(1))
			done := begin(context.Background(), c, "echo", nil)
			conn := p.accept()
			conn.readHello()
			conn.hesitate(3 * limit)
			conn.write(p.welcome.Append(nil))
			conn.reply(conn.expect(wire.Request), []byte("late"))
			expectReply(t, wait(t, done), "late")
		})
	}
}

// A call whose endpoint does not answer until its deadline ends as it does with a single endpoint.
func TestDeadlineAtTheLastEndpoint(t *testing.T) {
	p := newRemotePeer(t, "tcp")
	c := newClient(t, "unix:/nonexistent/s | "+p.address, client.WithEndpointConnectTimeout(short/4))
	done := begin(shortContext(t), c, "echo", nil)
	p.accept().readHello()
	got := wait(t, done)
	expectTimeout(t, got, status.OutcomeNotExecuted)
}

// An endpoint that does not answer has failed once, however many calls have waited for it.
func TestManyCallsWaitForOneAttempt(t *testing.T) {
	silent, place := newRemotePeer(t, "tcp"), newPlace(t, "tcp:127.0.0.1:0")
	c := newClient(t, silent.address+" | "+place.address, client.WithEndpointConnectTimeout(short))
	const calls = 30
	done := make(chan error)
	for range calls {
		go func() { done <- c.Call(context.Background(), "work", nil) }()
	}
	for range calls {
		must(t, <-done)
	}
	// On a busy machine a late call may have tried it again.
	if failures := c.Statistics().Endpoints[0].FailuresTotal; failures < 1 || failures > calls/5 {
		t.Errorf("%d failures were counted", failures)
	}
}

// A call that waits for an attempt with less time than it has makes another one.
func TestMoreTimeThanTheAttempt(t *testing.T) {
	p := newNamedPeer(t)
	c := p.client(client.WithEndpointConnectTimeout(4*short), client.WithAttempts(1))
	hurried := begin(shortContext(t), c, "echo", nil)
	p.accept().readHello()
	done := begin(context.Background(), c, "echo", nil)
	expectTimeout(t, wait(t, hurried), status.OutcomeNotExecuted)
	conn := p.serve()
	conn.reply(conn.expect(wire.Request), []byte("anew"))
	expectReply(t, wait(t, done), "anew")
}
