package client_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// callsToBeAlone are enough for a caller to count as alone.
const callsToBeAlone = 40

// callAlone makes calls one after the other.
func callAlone(t *testing.T, c *client.Client, conn *peerConn) {
	t.Helper()
	for range callsToBeAlone {
		done := begin(context.Background(), c, "echo", nil)
		conn.reply(conn.expect(wire.Request), []byte("alone"))
		expectReply(t, wait(t, done), "alone")
	}
}

// alone returns a client whose next caller reads for itself.
func alone(t *testing.T, options ...client.Option) (*peer, *client.Client, *peerConn) {
	t.Helper()
	return aloneAt(t, newPeer(t), options...)
}

// aloneAt is alone with a peer of any kind.
func aloneAt(t *testing.T, p *peer, options ...client.Option) (*peer, *client.Client, *peerConn) {
	t.Helper()
	c := p.client(options...)
	done := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.reply(conn.expect(wire.Request), nil)
	expectReply(t, wait(t, done), "")
	callAlone(t, c, conn)
	return p, c, conn
}

// callReading begins a call and waits until its caller reads. After a pause the
// standby does, so that a machine that stood still needs another try.
func callReading(t *testing.T, ctx context.Context, c *client.Client, conn *peerConn) (<-chan result, wire.Frame) {
	t.Helper()
	for range 10 {
		done := begin(ctx, c, "echo", nil)
		request := conn.expect(wire.Request)
		for end := time.Now().Add(patience / 20); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if aCallerReads() {
				return done, request
			}
		}
		conn.reply(request, nil)
		expectReply(t, wait(t, done), "")
		callAlone(t, c, conn)
	}
	t.Fatal("no caller reads")
	return nil, wire.Frame{}
}

func aCallerReads() bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "client.(*connection).readFor")
}

func TestLoneThenManyThenLone(t *testing.T) {
	_, c, conn := alone(t)
	for range 3 {
		first, request := callReading(t, context.Background(), c, conn)
		var done []<-chan result
		var requests []wire.Frame
		for range 3 {
			done = append(done, begin(context.Background(), c, "echo", nil))
			requests = append(requests, conn.expect(wire.Request))
		}
		// The first caller reads this for another one.
		conn.reply(requests[0], []byte(fmt.Sprint(requests[0].CallID)))
		conn.reply(request, []byte("first"))
		expectReply(t, wait(t, first), "first")
		for _, other := range requests[1:] {
			conn.reply(other, []byte(fmt.Sprint(other.CallID)))
		}
		for _, other := range done {
			must(t, wait(t, other).err)
		}
		callAlone(t, c, conn)
	}
}

func TestDeadlineWhileTheCallerReads(t *testing.T) {
	for name, timeout := range map[string]func(*testing.T) (context.Context, client.Option){
		"of the context": func(t *testing.T) (context.Context, client.Option) {
			return shortContext(t), client.WithTimeout(time.Minute)
		},
		"of the client": func(*testing.T) (context.Context, client.Option) {
			return context.Background(), client.WithTimeout(short)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, option := timeout(t)
			_, c, conn := alone(t, option)
			ctx, _ := timeout(t)
			done := begin(ctx, c, "echo", nil)
			request := conn.expect(wire.Request)
			conn.expect(wire.Cancel)
			expectTimeout(t, wait(t, done), status.OutcomeUnknown)
			// What comes late counts for nothing and hurts nobody.
			conn.reply(request, []byte("late"))
			callAlone(t, c, conn)
			next, request := callReading(t, context.Background(), c, conn)
			conn.reply(request, []byte("next"))
			expectReply(t, wait(t, next), "next")
		})
	}
}

func TestNotStartedAfterTheDeadlineWhileTheCallerReads(t *testing.T) {
	_, c, conn := alone(t)
	untilInGrace(t, status.DeadlineExceeded, func() (time.Duration, result) {
		done := begin(shortContext(t), c, "echo", nil)
		request := conn.expect(wire.Request)
		conn.expect(wire.Cancel)
		conn.fail(request, status.DeadlineExceeded, status.OutcomeNotExecuted)
		got := wait(t, done)
		return got.took - short, got
	})
}

func TestDeadlineWithinTheReplyWhileTheCallerReads(t *testing.T) {
	for name, bytes := range map[string]int{"small": 10, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			_, c, conn := alone(t)
			done := begin(shortContext(t), c, "echo", nil)
			frame := replyTo(conn.expect(wire.Request), make([]byte, bytes))
			reply, half := frame.Append(nil), wire.HeaderBytes+bytes/2
			conn.write(reply[:half])
			expectTimeout(t, wait(t, done), status.OutcomeExecutedResultLost)
			conn.expect(wire.Cancel)
			conn.write(reply[half:])
			callAlone(t, c, conn)
		})
	}
}

// The context of one caller ends while it reads for others.
func TestCancelWhileTheCallerReads(t *testing.T) {
	_, c, conn := alone(t)
	for range 3 {
		untilInGrace(t, status.Cancelled, func() (time.Duration, result) {
			ctx, cancel := context.WithCancel(context.Background())
			first, request := callReading(t, ctx, c, conn)
			second := begin(context.Background(), c, "echo", nil)
			other := conn.expect(wire.Request)
			cancelled := time.Now()
			cancel()
			conn.expect(wire.Cancel)
			conn.reply(other, []byte("second"))
			conn.fail(request, status.Cancelled, status.OutcomeNotExecuted)
			got := wait(t, first)
			after := time.Since(cancelled)
			expectReply(t, wait(t, second), "second")
			callAlone(t, c, conn)
			return after, got
		})
	}
}

// Nobody reads when the server goes; the next call is sent elsewhere without
// that counting as an attempt.
func TestServerGoesWhileIdle(t *testing.T) {
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
	} {
		t.Run(name, func(t *testing.T) {
			p, c, conn := alone(t, client.WithAttempts(1))
			goes(conn)
			done := begin(context.Background(), c, "echo", nil)
			fresh := p.serve()
			fresh.reply(fresh.expect(wire.Request), []byte("fresh"))
			expectReply(t, wait(t, done), "fresh")
		})
	}
}

// A server that drains still takes bytes: what was sent into the void is sent
// again, and counts.
func TestServerDrainsWhileIdle(t *testing.T) {
	p, c, conn := alone(t)
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: 1}})
	done := begin(context.Background(), c, "echo", nil)
	fresh := p.serve()
	fresh.reply(fresh.expect(wire.Request), []byte("fresh"))
	expectReply(t, wait(t, done), "fresh")
}

func TestPingAfterTheServerWentWhileIdle(t *testing.T) {
	p, c, conn := alone(t, client.WithAttempts(1))
	conn.end()
	done := make(chan error, 1)
	go func() {
		_, err := c.Ping(context.Background())
		done <- err
	}()
	fresh := p.serve()
	fresh.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: fresh.expect(wire.Ping).Payload})
	must(t, <-done)
}

// Without a call the standby reads again after a while.
func TestIdleConnectionIsRead(t *testing.T) {
	_, c, conn := alone(t)
	for range 2 {
		conn.send(wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte("there?")})
		if pong := conn.expect(wire.Pong); string(pong.Payload) != "there?" {
			t.Fatalf("got %q", pong.Payload)
		}
		callAlone(t, c, conn)
	}
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: 1 << 20}})
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Fatalf("got %d bytes and %v, want the end", len(rest), err)
	}
}

// What a server decides is told the same way when the caller reads.
func TestOutcomesWhileTheCallerReads(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	for _, script := range scripts {
		t.Run(script.name, func(t *testing.T) {
			_, c, conn := alone(t, client.WithAttempts(1))
			done := begin(context.Background(), c, "echo", []byte("x"))
			script.play(conn)
			expectFailure(t, wait(t, done).err, script.code, script.outcome)
		})
	}
}

func TestPingsWhileTheCallerReads(t *testing.T) {
	_, c, conn := alone(t)
	done, request := callReading(t, context.Background(), c, conn)
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Ping}})
	conn.expect(wire.Pong)
	pinged := make(chan error, 2)
	ping := func() {
		_, err := c.Ping(context.Background())
		pinged <- err
	}
	go ping()
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: conn.expect(wire.Ping).Payload})
	must(t, <-pinged)
	// One is answered only after the caller has stopped reading.
	go ping()
	payload := conn.expect(wire.Ping).Payload
	conn.reply(request, nil)
	expectReply(t, wait(t, done), "")
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: payload})
	must(t, <-pinged)
}

func TestCloseWhileTheCallerReads(t *testing.T) {
	_, c, conn := alone(t)
	done, _ := callReading(t, context.Background(), c, conn)
	must(t, c.Close())
	expectFailure(t, wait(t, done).err, status.Cancelled, status.OutcomeUnknown)
	expectNoGoroutines(t)
}

func TestCloseWhileIdle(t *testing.T) {
	_, c, _ := alone(t)
	must(t, c.Close())
	expectNoGoroutines(t)
}

// Callers come and go, some give up: every answer is right and none is missing.
func TestRoleUnderStress(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := demoClient(t)
	var callers sync.WaitGroup
	for number := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, number))
		callers.Go(func() {
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				if err := callSomehow(c, random); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

func callSomehow(c *client.Client, random *rand.Rand) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch random.IntN(8) {
	case 0:
		short, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(2000))*time.Microsecond)
		defer cancel()
		_ = c.Call(short, "sleep", nil, 1)
	case 1:
		time.AfterFunc(time.Duration(random.IntN(1000))*time.Microsecond, cancel)
		_ = c.Call(ctx, "sleep", nil, 1)
	case 2:
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	case 3:
		_, err := c.Ping(ctx)
		return err
	}
	for range random.IntN(60) {
		want := random.Int64N(1 << 40)
		got, err := client.Call[int64](ctx, c, "sum", want, 1)
		if ctx.Err() == nil && (err != nil || got != want+1) {
			return fmt.Errorf("got %d and %v, want %d", got, err, want+1)
		}
	}
	return nil
}
