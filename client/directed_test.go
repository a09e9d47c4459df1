package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// newDirected returns two scripted servers, of which the first has directed the calls of a client
// to the second for a minute, and the first one's connection.
func newDirected(t *testing.T) (there *peer, conn *peerConn, c *client.Client) {
	t.Helper()
	gateway := newPeer(t)
	gateway.welcome = newWelcome(wire.FeatureSharedClock | wire.FeatureDirections)
	there = newPeer(t)
	there.welcome.SchemaHash = 8
	c = gateway.client(client.WithAttempts(1))
	done := begin(context.Background(), c, "echo", nil)
	conn = gateway.serve()
	if conn.hello.Offered&wire.FeatureDirections == 0 {
		t.Fatal("the client does not offer to follow directions")
	}
	conn.direct(conn.expect(wire.Request), there.address)
	expectReply(t, wait(t, done), "here")
	return there, conn, c
}

// direct replies to a call and directs further ones to an address.
func (c *peerConn) direct(request wire.Frame, address string) {
	c.t.Helper()
	answer := replyTo(request, []byte("here"))
	answer.Extensions = wire.AppendDirection(wire.AppendMetadata(nil, "zone", "west"), wire.Direction{Address: address, Valid: time.Minute})
	c.send(answer)
}

// What brings a call back, so that it succeeds all the same, and where the next one goes.
func TestDirectedCallsComeBack(t *testing.T) {
	refusing := func(code status.Code) func(*peer) *peerConn {
		return func(p *peer) *peerConn {
			conn := p.serve()
			conn.fail(conn.expect(wire.Request), code, status.OutcomeNotExecuted)
			return conn
		}
	}
	for what, row := range map[string]struct {
		fail func(*peer) *peerConn // what it returns takes the next call, if that goes there again
		back bool                  // the next one goes to the client's own address
	}{
		"refused at once":        {func(p *peer) *peerConn { p.refuse(status.Unavailable); return nil }, true},
		"refused as a user":      {func(p *peer) *peerConn { p.refuse(status.PermissionDenied); return nil }, true},
		"lost before it is read": {func(p *peer) *peerConn { conn := p.serve(); conn.awaitUnread(); conn.end(); return nil }, true},
		"DRAIN": {func(p *peer) *peerConn {
			conn := p.serve()
			conn.expect(wire.Request)
			conn.send(wire.Frame{Header: wire.Header{Type: wire.Drain}, Payload: []byte("restart")})
			return nil
		}, false},
		"unavailable":         {refusing(status.Unavailable), false},
		"arguments":           {refusing(status.InvalidArgument), false},
		"no such function":    {refusing(status.Unimplemented), true},
		"another description": {refusing(status.Aborted), true},
		"no permission":       {refusing(status.PermissionDenied), true},
		"not identified":      {refusing(status.Unauthenticated), true},
	} {
		t.Run(what, func(t *testing.T) {
			there, conn, c := newDirected(t)
			done := begin(context.Background(), c, "echo", nil)
			next := row.fail(there)
			conn.reply(conn.expect(wire.Request), []byte("back"))
			expectReply(t, wait(t, done), "back")
			done = begin(context.Background(), c, "echo", nil)
			switch {
			case row.back:
				next = conn
			case next == nil:
				next = there.serve()
			}
			next.reply(next.expect(wire.Request), []byte("next"))
			expectReply(t, wait(t, done), "next")
		})
	}
}

// A server that has too many calls of this user is left alone for a moment.
func TestDirectedToAServerWithTooManyCalls(t *testing.T) {
	there, conn, c := newDirected(t)
	done := begin(context.Background(), c, "echo", nil)
	full := there.serve()
	full.send(failureOf(full.expect(wire.Request), withLimit("calls_in_flight_per_user_max")))
	conn.reply(conn.expect(wire.Request), []byte("back"))
	expectReply(t, wait(t, done), "back")
	told := c.Statistics().Endpoints[1]
	if !told.Told || told.State != "full" && told.State != "in use" {
		t.Errorf("statistics: %+v", told)
	}
	eventually(t, func() bool { return c.Statistics().Endpoints[1].State == "in use" }, func() string { return "it is left alone for ever" })
	done = begin(context.Background(), c, "echo", nil)
	full.reply(full.expect(wire.Request), []byte("there"))
	expectReply(t, wait(t, done), "there")
}

// What does not: the call may have been executed, or has ended for a reason of its own.
func TestDirectedCallsEnd(t *testing.T) {
	failing := func(code status.Code, outcome status.Outcome) func(*peer) {
		return func(p *peer) {
			conn := p.serve()
			conn.fail(conn.expect(wire.Request), code, outcome)
		}
	}
	for what, row := range map[string]struct {
		fail    func(*peer)
		code    status.Code
		outcome status.Outcome
	}{
		"lost after it was read": {func(p *peer) { conn := p.serve(); conn.expect(wire.Request); conn.end() }, status.Unavailable, status.OutcomeUnknown},
		"the function's own":     {failing(status.Unavailable, status.OutcomeExecuted), status.Unavailable, status.OutcomeExecuted},
		"result lost":            {failing(status.ResourceExhausted, status.OutcomeExecutedResultLost), status.ResourceExhausted, status.OutcomeExecutedResultLost},
		"unavailable, unknown":   {failing(status.Unavailable, status.OutcomeUnknown), status.Unavailable, status.OutcomeUnknown},
		"deadline":               {failing(status.DeadlineExceeded, status.OutcomeNotExecuted), status.DeadlineExceeded, status.OutcomeNotExecuted},
	} {
		t.Run(what, func(t *testing.T) {
			there, conn, c := newDirected(t)
			done := begin(context.Background(), c, "echo", nil)
			row.fail(there)
			expectFailure(t, wait(t, done).err, row.code, row.outcome)
			// The server that directed it has not heard of it.
			ping := make(chan error, 1)
			go func() { _, err := c.Ping(context.Background()); ping <- err }()
			question := conn.expect(wire.Ping)
			conn.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: question.Payload})
			must(t, <-ping)
		})
	}
}

// Where a client was directed to, nobody directs it any further.
func TestDirectedOnce(t *testing.T) {
	there, _, c := newDirected(t)
	done := begin(context.Background(), c, "echo", nil)
	further := there.serve()
	if further.hello.Offered&wire.FeatureDirections != 0 {
		t.Error("the client offers to follow directions again")
	}
	further.direct(further.expect(wire.Request), "unix:/nowhere")
	expectReply(t, wait(t, done), "here")
	done = begin(context.Background(), c, "echo", nil)
	further.reply(further.expect(wire.Request), []byte("there"))
	expectReply(t, wait(t, done), "there")
}

// A server that does not answer its connections costs a call a part of its time only. Others do not wait
// for it.
func TestDirectedToASilentServer(t *testing.T) {
	there, conn, c := newDirected(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*short)
	defer cancel()
	done := begin(ctx, c, "echo", nil)
	silent := there.accept()
	conn.reply(conn.expect(wire.Request), []byte("back"))
	expectReply(t, wait(t, done), "back")
	done = begin(ctx, c, "echo", nil)
	conn.reply(conn.expect(wire.Request), []byte("back"))
	expectReply(t, wait(t, done), "back")
	silent.end()
}

// A path that was told over a connection that may come from another machine is not followed: its server
// has another clock.
func TestDirectionThroughATunnel(t *testing.T) {
	gateway, there := newPeer(t), newPeer(t)
	gateway.welcome = newWelcome(wire.FeatureSharedClock | wire.FeatureDirections)
	gateway.clockAhead = time.Second
	c := gateway.client()
	done := begin(context.Background(), c, "echo", nil)
	conn := gateway.serve()
	for range 2 {
		conn.direct(conn.expect(wire.Request), there.address)
		expectReply(t, wait(t, done), "here")
		done = begin(context.Background(), c, "echo", nil)
	}
	conn.reply(conn.expect(wire.Request), nil)
	wait(t, done)
	there.expectNoConnection()
}
