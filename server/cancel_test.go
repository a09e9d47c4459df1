package server_test

import (
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// TestCancelInTheWriteOfTheCall: a function that was slow before runs apart, so that
// the CANCEL behind its request may win. Whichever does, there is one answer.
func TestCancelInTheWriteOfTheCall(t *testing.T) {
	s := newServer(t)
	register(t, s, "block", func(pauseMs int64) { time.Sleep(time.Duration(pauseMs) * time.Millisecond) })
	c := connect(t, start(t, s))
	for range 100 {
		if _, failure := c.call("block", int64(2)); failure != nil {
			t.Fatal(failure)
		}
		request := c.request("block", 0, []byte{0x91, 0x00})
		cancel := wire.Frame{Header: wire.Header{Type: wire.Cancel, CallID: c.lastID}}
		ping := wire.Frame{Header: wire.Header{Type: wire.Ping}}
		c.send(ping.Append(cancel.Append(request)))
		c.wantOneAnswer(c.lastID)
	}
}

// wantOneAnswer reads one answer to a call that was cancelled, and one to a ping.
func (c *caller) wantOneAnswer(call uint64) {
	c.t.Helper()
	var answers, pongs int
	for answers+pongs < 2 {
		frame := c.next()
		if frame.Type == wire.Pong {
			pongs++
			continue
		}
		answers++
		id, _, failure := c.decode(frame)
		if id != call {
			c.t.Fatalf("an answer to %d, want one to %d", id, call)
		}
		if failure != nil {
			wantFailure(c.t, failure, status.Cancelled, status.OutcomeNotExecuted)
		}
	}
	if answers != 1 {
		c.t.Fatalf("%d answers to call %d", answers, call)
	}
}
