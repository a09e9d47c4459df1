package client_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

func TestRetryOfWhatWasNotExecuted(t *testing.T) {
	lose := map[string]func(*peer){
		"the request was not read": func(p *peer) {
			conn := p.serve()
			conn.awaitUnread()
			conn.end()
		},
		"DRAIN": func(p *peer) {
			conn := p.serve()
			conn.expect(wire.Request)
			conn.send(wire.Frame{Header: wire.Header{Type: wire.Drain}, Payload: []byte("restart")})
		},
		"refused because it is draining": func(p *peer) {
			conn := p.serve()
			conn.fail(conn.expect(wire.Request), status.Unavailable, status.OutcomeNotExecuted)
			conn.end()
		},
		"the hello was not answered": func(p *peer) {
			conn := p.accept()
			conn.readHello()
			conn.end()
		},
		"the welcome says that it is draining": func(p *peer) {
			conn := p.accept()
			conn.readHello()
			refusal := wire.Welcome{Status: uint16(status.Unavailable), Refusal: "restart"}
			conn.write(refusal.Append(nil))
		},
	}
	for name, lose := range lose {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			done := begin(context.Background(), p.client(), "echo", []byte("again"))
			lose(p)
			lose(p)
			conn := p.serve()
			request := conn.expect(wire.Request)
			conn.reply(request, request.Payload)
			expectReply(t, wait(t, done), "again")
		})
	}
}

func TestAttemptsMax(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(client.WithAttempts(2)), "echo", nil)
	for range 2 {
		conn := p.serve()
		conn.awaitUnread()
		conn.end()
	}
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeNotExecuted)
}

func TestNoRetryOfTheRest(t *testing.T) {
	for name, play := range map[string]func(*peerConn){
		"unknown": func(c *peerConn) { c.expect(wire.Request); c.end() },
		"refused": func(c *peerConn) {
			c.fail(c.expect(wire.Request), status.ResourceExhausted, status.OutcomeNotExecuted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			done := begin(context.Background(), p.client(), "echo", nil)
			play(p.serve())
			if wait(t, done).err == nil {
				t.Fatal("the call succeeded")
			}
			p.expectNoConnection()
		})
	}
}

func TestRetryEndsWithTheDeadline(t *testing.T) {
	c := newClient(t, "unix:"+t.TempDir()+"/none", client.WithAttempts(wire.AttemptsMaxCeiling))
	got := wait(t, begin(shortContext(t), c, "echo", nil))
	var failure *status.Error
	if !errors.As(got.err, &failure) || failure.Outcome != status.OutcomeNotExecuted {
		t.Fatal(got.err)
	}
	expectOnTime(t, got.took, short, got.late)
}

// drained returns a call that its server accepted before DRAIN, its request, and
// both connections: the second call shows that the caller has read DRAIN.
func drained(t *testing.T, ctx context.Context) (first <-chan result, request wire.Frame, old, fresh *peerConn) {
	p := newPeer(t)
	c := p.client()
	first = begin(ctx, c, "echo", nil)
	old = p.serve()
	request = old.expect(wire.Request)
	old.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: request.CallID}})
	second := begin(context.Background(), c, "echo", nil)
	fresh = p.serve()
	fresh.reply(fresh.expect(wire.Request), []byte("new"))
	expectReply(t, wait(t, second), "new")
	return first, request, old, fresh
}

func TestDrainLetsAcceptedCallsFinish(t *testing.T) {
	first, request, old, _ := drained(t, context.Background())
	old.reply(request, []byte("old"))
	expectReply(t, wait(t, first), "old")
}

func TestNothingIsSentAfterDrain(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first, _, old, _ := drained(t, ctx)
	ping := wire.Frame{Header: wire.Header{Type: wire.Ping}}
	old.send(ping)
	cancel()
	expectFailure(t, wait(t, first).err, status.Cancelled, status.OutcomeUnknown)
	// The caller closes what it waits for no longer. Only the second call may
	// have been sent before DRAIN was read.
	sent, err := io.ReadAll(old)
	must(t, err)
	for len(sent) > 0 {
		var frame wire.Frame
		taken, err := old.parser.Next(sent, &frame)
		must(t, err)
		if frame.Type != wire.Request {
			t.Fatalf("%v was sent after DRAIN", frame.Type)
		}
		sent = sent[taken:]
	}
}

func TestReconnectsWhenTheServerIsBack(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	for range 3 {
		done := begin(context.Background(), c, "echo", []byte("x"))
		conn := p.serve()
		conn.reply(conn.expect(wire.Request), []byte("x"))
		expectReply(t, wait(t, done), "x")
		conn.end()
		expectNoGoroutines(t)
	}
}

func TestClose(t *testing.T) {
	p := newPeer(t)
	c, err := client.New(p.address)
	must(t, err)
	sent := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.expect(wire.Request)
	must(t, c.Close())
	failure := expectFailure(t, wait(t, sent).err, status.Cancelled, status.OutcomeUnknown)
	if !errors.Is(failure, client.ErrClosed) {
		t.Fatal("errors.Is does not find ErrClosed")
	}
	_, err = c.CallRaw(context.Background(), "echo", nil, nil)
	failure = expectFailure(t, err, status.FailedPrecondition, status.OutcomeNotExecuted)
	if !errors.Is(failure, client.ErrClosed) {
		t.Fatal("errors.Is does not find ErrClosed")
	}
	must(t, c.Close())
	expectNoGoroutines(t)
}

func TestCloseWhileConnecting(t *testing.T) {
	p := newPeer(t)
	c, err := client.New(p.address)
	must(t, err)
	done := begin(context.Background(), c, "echo", nil)
	p.accept().readHello()
	must(t, c.Close())
	expectFailure(t, wait(t, done).err, status.Cancelled, status.OutcomeNotExecuted)
	expectNoGoroutines(t)
}
