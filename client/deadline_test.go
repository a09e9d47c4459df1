package client_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const short = 150 * time.Millisecond

func shortContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), short)
	t.Cleanup(cancel)
	return ctx
}

// expectTimeout checks the code, the outcome, and that the call was on time.
func expectTimeout(t *testing.T, got result, outcome status.Outcome) {
	t.Helper()
	failure := expectFailure(t, got.err, status.DeadlineExceeded, outcome)
	if got.early > time.Millisecond {
		t.Fatalf("it ended %v before its deadline", got.early)
	}
	expectOnTime(t, got.took, short, got.late)
	if !errors.Is(failure, context.DeadlineExceeded) {
		t.Fatal("errors.Is does not find context.DeadlineExceeded")
	}
}

// graceRounds is how often a busy machine may miss limit cancel_grace_ms, which is this process's too.
const graceRounds = 50

// untilInGrace repeats what a server is to say after CANCEL until its caller, whose call ends so
// long after its deadline or cancellation, hears of it in time: that it had not started. Who hears
// of it later does not know.
func untilInGrace(t *testing.T, code status.Code, round func() (after time.Duration, got result)) {
	t.Helper()
	for range graceRounds {
		after, got := round()
		var failure *status.Error
		if after < wire.CancelGraceMs*time.Millisecond || !errors.As(got.err, &failure) || failure.Outcome != status.OutcomeUnknown {
			expectFailure(t, got.err, code, status.OutcomeNotExecuted)
			return
		}
	}
	t.Fatalf("of %d calls none heard within %d ms that it had not started", graceRounds, wire.CancelGraceMs)
}

func TestDeadlineTravels(t *testing.T) {
	for name, shared := range map[string]bool{"shared clock": true, "two clocks": false} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			if !shared {
				p.welcome.Accepted = 0
			}
			c := p.client()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			done := begin(ctx, c, "echo", nil)
			conn := p.serve()
			request := conn.expect(wire.Request)
			left := wire.DeadlineRemaining(request.Deadline, monotonic.New().Ms(), shared)
			if left < 55*time.Second || left > time.Minute+2*time.Millisecond {
				t.Fatalf("%v are left of a minute", left)
			}
			conn.reply(request, nil)
			expectReply(t, wait(t, done), "")
		})
	}
}

func TestDefaultAndNoDeadline(t *testing.T) {
	for name, row := range map[string]struct {
		options []client.Option
		want    time.Duration
	}{
		"default": {nil, 30 * time.Second},
		"an hour": {[]client.Option{client.WithTimeout(time.Hour)}, time.Hour},
		"none":    {[]client.Option{client.WithTimeout(client.NoTimeout)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			done := begin(context.Background(), p.client(row.options...), "echo", nil)
			conn := p.serve()
			request := conn.expect(wire.Request)
			left := wire.DeadlineRemaining(request.Deadline, monotonic.New().Ms(), true)
			if row.want == 0 && request.Deadline != 0 ||
				row.want != 0 && (left < row.want-5*time.Second || left > row.want+2*time.Millisecond) {
				t.Fatalf("field %d, %v left", request.Deadline, left)
			}
			conn.reply(request, nil)
			expectReply(t, wait(t, done), "")
		})
	}
}

func TestDeadlinePassesAndTheCallHadNotStarted(t *testing.T) {
	untilInGrace(t, status.DeadlineExceeded, func() (time.Duration, result) {
		p := newPeer(t)
		done := begin(shortContext(t), p.client(), "echo", nil)
		conn := p.serve()
		request := conn.expect(wire.Request)
		if cancel := conn.expect(wire.Cancel); cancel.CallID != request.CallID {
			t.Fatalf("CANCEL for call %d, want %d", cancel.CallID, request.CallID)
		}
		conn.fail(request, status.Cancelled, status.OutcomeNotExecuted)
		got := wait(t, done)
		return got.took - short, got
	})
}

func TestDeadlinePassesAndTheServerIsSilent(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	done := begin(shortContext(t), c, "echo", nil)
	conn := p.serve()
	first := conn.expect(wire.Request)
	expectTimeout(t, wait(t, done), status.OutcomeUnknown)

	// The connection goes on, and the late reply is dropped.
	conn.expect(wire.Cancel)
	done = begin(context.Background(), c, "echo", nil)
	second := conn.expect(wire.Request)
	conn.reply(first, []byte("late"))
	conn.reply(second, []byte("in time"))
	expectReply(t, wait(t, done), "in time")
}

// The client's own default works without a context's timer.
func TestDefaultTimeoutPasses(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(client.WithTimeout(short)), "echo", nil)
	p.serve().expect(wire.Request)
	expectTimeout(t, wait(t, done), status.OutcomeUnknown)
}

func TestReplyAfterTheDeadlineCountsForNothing(t *testing.T) {
	p := newPeer(t)
	done := begin(shortContext(t), p.client(), "echo", nil)
	conn := p.serve()
	request := conn.expect(wire.Request)
	conn.expect(wire.Cancel)
	conn.reply(request, []byte("late"))
	expectTimeout(t, wait(t, done), status.OutcomeUnknown)
}

func TestDeadlinePassesWithinTheReply(t *testing.T) {
	for name, bytes := range map[string]int{"small": 10, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			done := begin(shortContext(t), p.client(), "echo", nil)
			conn := p.serve()
			frame := replyTo(conn.expect(wire.Request), make([]byte, bytes))
			conn.write(frame.Append(nil)[:wire.HeaderBytes+bytes/2])
			expectTimeout(t, wait(t, done), status.OutcomeExecutedResultLost)
		})
	}
}

func TestDeadlinePassesWithinTheHello(t *testing.T) {
	p := newPeer(t)
	done := begin(shortContext(t), p.client(), "echo", nil)
	conn := p.accept()
	conn.readHello()
	conn.write(p.welcome.Append(nil)[:20])
	expectTimeout(t, wait(t, done), status.OutcomeNotExecuted)
}

// A server that reads nothing can have started nothing, and learns from the
// deadline in the request that it need not begin.
func TestDeadlinePassesWithinTheRequest(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	done := begin(shortContext(t), c, "echo", make([]byte, 1<<20))
	conn := p.serve()
	expectTimeout(t, wait(t, done), status.OutcomeNotExecuted)

	// The rest of the frame still follows, so that the connection goes on.
	request := conn.expect(wire.Request)
	conn.expect(wire.Cancel)
	conn.fail(request, status.DeadlineExceeded, status.OutcomeNotExecuted)
	done = begin(context.Background(), c, "echo", nil)
	conn.reply(conn.expect(wire.Request), []byte("next"))
	expectReply(t, wait(t, done), "next")
}

// Requests behind one that fills the socket are withdrawn: not a byte of them
// is sent.
func TestDeadlinePassesBehindAnotherRequest(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	large := begin(context.Background(), c, "echo", make([]byte, 1<<20))
	conn := p.serve()
	conn.awaitUnread()
	small := begin(shortContext(t), c, "small", nil)
	expectTimeout(t, wait(t, small), status.OutcomeNotExecuted)
	request := conn.expect(wire.Request)
	conn.reply(request, nil)
	expectReply(t, wait(t, large), "")

	done := begin(context.Background(), c, "after", nil)
	request = conn.expect(wire.Request)
	if name, _ := wire.FindExtension(request.Extensions, wire.ExtensionFunctionName); string(name) != "after" {
		t.Fatalf("got a request for %q, which was withdrawn", name)
	}
	conn.reply(request, nil)
	expectReply(t, wait(t, done), "")
}

func TestCancel(t *testing.T) {
	for name, outcome := range map[string]status.Outcome{"not started": status.OutcomeNotExecuted, "started": status.OutcomeUnknown} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			ctx, cancel := context.WithCancel(context.Background())
			done := begin(ctx, p.client(), "echo", nil)
			conn := p.serve()
			request := conn.expect(wire.Request)
			cancel()
			conn.expect(wire.Cancel)
			if outcome == status.OutcomeNotExecuted {
				conn.fail(request, status.Cancelled, outcome)
			}
			failure := expectFailure(t, wait(t, done).err, status.Cancelled, outcome)
			if !errors.Is(failure, context.Canceled) {
				t.Fatal("errors.Is does not find context.Canceled")
			}
		})
	}
}

// Nobody else waits for this connection, so that the rest of the request need
// not be sent: then it cannot be executed.
func TestCancelWithinTheRequest(t *testing.T) {
	p := newPeer(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := begin(ctx, p.client(), "echo", make([]byte, 1<<20))
	p.serve().awaitUnread()
	cancel()
	expectFailure(t, wait(t, done).err, status.Cancelled, status.OutcomeNotExecuted)
}

func TestContextThatEndedBefore(t *testing.T) {
	p := newPeer(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.client().CallRaw(ctx, "echo", nil, nil)
	expectFailure(t, err, status.Cancelled, status.OutcomeNotExecuted)
}

// Many deadlines on one connection: the one timer serves them all.
func TestManyDeadlines(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	go func() {
		// Ends with the client.
		_, _ = io.Copy(io.Discard, p.serve())
	}()
	var wait sync.WaitGroup
	late := measureLateness()
	took := make([]time.Duration, 200)
	timeout := func(i int) time.Duration { return time.Duration(100+len(took)-i) * time.Millisecond }
	for i := range took {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout(i))
			defer cancel()
			start := time.Now()
			_, err := c.CallRaw(ctx, "echo", nil, nil)
			took[i] = time.Since(start)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	most := late()
	for i := range took {
		expectOnTime(t, took[i], timeout(i), most)
	}
}
