package client_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// newAskedPeer is newPeer for a server that can be asked.
func newAskedPeer(t *testing.T) *peer {
	p := newPeer(t)
	p.welcome.Accepted |= wire.FeatureAsks
	return p
}

// serveKey takes the next connection, which gets a key of its own.
func (p *peer) serveKey(key byte) *peerConn {
	p.t.Helper()
	p.welcome.Key = wire.ConnectionKey{key}
	conn := p.serve()
	conn.parser.Features = p.welcome.Accepted
	return conn
}

// lose ends the connection when it has read a request, whose id it returns.
func (c *peerConn) lose() uint64 {
	c.t.Helper()
	request := c.expect(wire.Request)
	c.end()
	return request.CallID
}

// expectAsk waits for an ASK about calls of the connection with that key.
func (c *peerConn) expectAsk(key byte, ids ...uint64) wire.Frame {
	c.t.Helper()
	frame := c.expect(wire.Ask)
	gotKey, gotIDs, err := wire.ParseAsk(frame.Payload)
	must(c.t, err)
	slices.Sort(gotIDs)
	if gotKey != (wire.ConnectionKey{key}) || !slices.Equal(gotIDs, ids) {
		c.t.Fatalf("an ASK about calls %v of connection %x, want %v of %x", gotIDs, gotKey, ids, key)
	}
	if frame.Deadline == 0 {
		c.t.Error("the ASK has no deadline")
	}
	return frame
}

// tellStages answers an ASK.
func (c *peerConn) tellStages(ask wire.Frame, stages ...wire.Stage) {
	c.t.Helper()
	answer := replyTo(ask, nil)
	answer.FunctionID = 0
	for _, stage := range stages {
		answer.Payload = append(answer.Payload, byte(stage))
	}
	c.send(answer)
}

func TestAnswerDecidesTheOutcome(t *testing.T) {
	for _, row := range []struct {
		stage   wire.Stage
		outcome status.Outcome
		text    string
	}{
		{wire.StageNever, status.OutcomeNotExecuted, "was not started"},
		{wire.StageReceived, status.OutcomeNotExecuted, "was not started"},
		{wire.StageStarted, status.OutcomeUnknown, "is not known to have returned"},
		{wire.StageFinished, status.OutcomeExecutedResultLost, "had returned"},
		{wire.StageNotKept, status.OutcomeUnknown, "does not know the call any more"},
		{77, status.OutcomeUnknown, "does not know the call any more"},
	} {
		t.Run(row.text, func(t *testing.T) {
			p := newAskedPeer(t)
			done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", []byte("x"))
			id := p.serveKey(1).lose()
			conn := p.serveKey(2)
			conn.tellStages(conn.expectAsk(1, id), row.stage)
			failure := expectFailure(t, wait(t, done).err, status.Unavailable, row.outcome)
			if !strings.Contains(failure.Message, "was lost") || !strings.Contains(failure.Message, row.text) {
				t.Errorf("the message is %q, want one that says %q", failure.Message, row.text)
			}
		})
	}
}

// A call that was not started is sent again, over the connection that the question has made.
func TestCallThatWasNotStartedIsSentAgain(t *testing.T) {
	p := newAskedPeer(t)
	done := begin(context.Background(), p.client(), "echo", []byte("x"))
	id := p.serveKey(1).lose()
	conn := p.serveKey(2)
	conn.tellStages(conn.expectAsk(1, id), wire.StageNever)
	conn.reply(conn.expect(wire.Request), []byte("y"))
	expectReply(t, wait(t, done), "y")
	p.expectNoConnection()
}

func TestNobodyIsAsked(t *testing.T) {
	for name, play := range map[string]func(p *peer){
		"the feature was not accepted": func(p *peer) {
			p.welcome.Accepted &^= wire.FeatureAsks
			p.serveKey(1).lose()
		},
		"there is no key": func(p *peer) { p.serveKey(0).lose() },
		"another server answers": func(p *peer) {
			p.serveKey(1).lose()
			p.welcome.Instance++
			p.serveKey(2)
		},
		"the server does not accept asks any more": func(p *peer) {
			p.serveKey(1).lose()
			p.welcome.Accepted &^= wire.FeatureAsks
			p.serveKey(2)
		},
		"nobody listens": func(p *peer) {
			conn := p.serveKey(1)
			must(p.t, p.listener.Close())
			conn.lose()
		},
		"it answers with an error": func(p *peer) {
			id := p.serveKey(1).lose()
			conn := p.serveKey(2)
			conn.fail(conn.expectAsk(1, id), status.InvalidArgument, status.OutcomeNotExecuted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newAskedPeer(t)
			done := begin(context.Background(), p.client(), "echo", []byte("x"))
			play(p)
			got := wait(t, done)
			expectFailure(t, got.err, status.Unavailable, status.OutcomeUnknown)
			if got.took > patience/4 {
				t.Errorf("that took %v", got.took)
			}
		})
	}
}

// loseSeveral loses a connection with three calls, whose results it returns.
func loseSeveral(ctx context.Context, p *peer, c *client.Client) (results [3]<-chan result) {
	results[0] = begin(ctx, c, "echo", []byte("1"))
	conn := p.serveKey(1)
	conn.expect(wire.Request)
	for i := 1; i < len(results); i++ {
		results[i] = begin(ctx, c, "echo", []byte("2"))
		conn.expect(wire.Request)
	}
	conn.end()
	return results
}

// One question is about all calls that were lost, and its answer waits for none of their functions.
// Only a call whose function runs asks again, for itself.
func TestOneQuestionIsAboutAllCalls(t *testing.T) {
	p := newAskedPeer(t)
	results := loseSeveral(context.Background(), p, p.client(client.WithAttempts(1)))
	conn := p.serveKey(2)
	all := conn.expectAsk(1, 1, 2, 3)
	if left := wire.DeadlineRemaining(all.Deadline, p.nowMs(), true); left > 0 {
		t.Errorf("the first question may wait for %v", left)
	}
	conn.tellStages(all, wire.StageFinished, wire.StageStarted, wire.StageReceived)
	own := conn.expectAsk(1, 2)
	if left := wire.DeadlineRemaining(own.Deadline, p.nowMs(), true); left < client.DefaultTimeout/2 {
		t.Errorf("the question of a call whose function runs may wait for %v", left)
	}
	expectFailure(t, wait(t, results[0]).err, status.Unavailable, status.OutcomeExecutedResultLost)
	expectFailure(t, wait(t, results[2]).err, status.Unavailable, status.OutcomeNotExecuted)
	conn.tellStages(own, wire.StageFinished)
	expectFailure(t, wait(t, results[1]).err, status.Unavailable, status.OutcomeExecutedResultLost)
}

// The connection over which the server is asked may be lost as well.
func TestQuestionIsAskedAgain(t *testing.T) {
	p := newAskedPeer(t)
	results := loseSeveral(context.Background(), p, p.client(client.WithAttempts(1)))
	conn := p.serveKey(2)
	conn.expectAsk(1, 1, 2, 3)
	conn.end()
	conn = p.serveKey(3)
	conn.tellStages(conn.expectAsk(1, 1, 2, 3), wire.StageFinished, wire.StageFinished, wire.StageFinished)
	for _, done := range results {
		expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeExecutedResultLost)
	}
}

func TestQuestionEndsWithItsCalls(t *testing.T) {
	t.Run("at the deadline", func(t *testing.T) {
		p := newAskedPeer(t)
		done := begin(shortContext(t), p.client(), "echo", []byte("x"))
		id := p.serveKey(1).lose()
		p.serveKey(2).expectAsk(1, id)
		got := wait(t, done)
		expectFailure(t, got.err, status.Unavailable, status.OutcomeUnknown)
		expectOnTime(t, got.took, short, got.late)
	})
	t.Run("at the deadlines of all", func(t *testing.T) {
		p := newAskedPeer(t)
		results := loseSeveral(shortContext(t), p, p.client())
		p.serveKey(2).expectAsk(1, 1, 2, 3)
		for _, done := range results {
			got := wait(t, done)
			expectFailure(t, got.err, status.Unavailable, status.OutcomeUnknown)
			expectOnTime(t, got.took, short, got.late)
		}
	})
	t.Run("when they are cancelled", func(t *testing.T) {
		p := newAskedPeer(t)
		ctx, cancel := context.WithCancel(context.Background())
		results := loseSeveral(ctx, p, p.client())
		conn := p.serveKey(2)
		ask := conn.expectAsk(1, 1, 2, 3)
		cancel()
		for _, done := range results {
			expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
		}
		if frame := conn.expect(wire.Cancel); frame.CallID != ask.CallID {
			t.Errorf("call %d was cancelled, the question is %d", frame.CallID, ask.CallID)
		}
	})
	t.Run("when the client is closed", func(t *testing.T) {
		p := newAskedPeer(t)
		c := p.client()
		results := loseSeveral(context.Background(), p, c)
		p.serveKey(2).expectAsk(1, 1, 2, 3)
		must(t, c.Close())
		for _, done := range results {
			expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
		}
	})
}

// An answer that is none is a breach of the protocol.
func TestAnswerOfAnotherLength(t *testing.T) {
	for name, stages := range map[string][]wire.Stage{"none": nil, "two": {wire.StageFinished, wire.StageFinished}} {
		t.Run(name, func(t *testing.T) {
			p := newAskedPeer(t)
			done := begin(context.Background(), p.client(), "echo", []byte("x"))
			id := p.serveKey(1).lose()
			conn := p.serveKey(2)
			conn.tellStages(conn.expectAsk(1, id), stages...)
			expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
			conn.expectEnd()
		})
	}
}

// What the carrier did not take, and what the server has said before the end, needs no question.
func TestWhatIsKnownIsNotAsked(t *testing.T) {
	p := newAskedPeer(t)
	done := begin(context.Background(), p.client(), "echo", []byte("x"))
	conn := p.serveKey(1)
	frame := replyTo(conn.expect(wire.Request), []byte("lost"))
	conn.write(frame.Append(nil)[:wire.HeaderBytes+2])
	conn.end()
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeExecutedResultLost)
	p.expectNoConnection()
}

// nowMs is the time on the peer's clock.
func (p *peer) nowMs() uint64 {
	return (monotonic.New().Ns() + uint64(p.clockAhead)) / uint64(time.Millisecond)
}

// A host name with one address is no reason to ask for a shorter time than its number is.
func TestAskingAnEndpointThatHasAName(t *testing.T) {
	p := newNamedPeer(t)
	p.welcome.Accepted |= wire.FeatureAsks
	done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", []byte("x"))
	id := p.serveKey(1).lose()
	conn := p.accept()
	conn.readHello()
	conn.hesitate((wire.TcpSilenceMs + 200) * time.Millisecond)
	p.welcome.Key = wire.ConnectionKey{2}
	conn.write(p.welcome.Append(nil))
	conn.parser.Features = p.welcome.Accepted
	conn.tellStages(conn.expectAsk(1, id), wire.StageFinished)
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeExecutedResultLost)
}

// A call may go elsewhere, so it does not ask a server that is out of reach until its deadline.
func TestAskingEndsSoonWithOtherEndpoints(t *testing.T) {
	near, _, c := newPair(t)
	near.welcome.Accepted |= wire.FeatureAsks
	done := begin(context.Background(), c, "echo", []byte("x"))
	near.serveKey(1).lose()
	near.accept()
	got := wait(t, done)
	expectFailure(t, got.err, status.Unavailable, status.OutcomeUnknown)
	if least := wire.TcpSilenceMs * time.Millisecond; got.took < least || got.took > least+client.DefaultTimeout/2+got.late {
		t.Errorf("the call asked for %v, want %v", got.took, least)
	}
}
