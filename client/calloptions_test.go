package client_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// metadataServer has functions that tell what came with their calls.
func metadataServer(t *testing.T) string {
	t.Helper()
	return serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), demo.RegisterMetadata)
}

func TestMetadataOfRequests(t *testing.T) {
	c := newClient(t, metadataServer(t))
	tenant := c.With(client.Metadata("tenant", "acme"))
	both := tenant.With(client.Metadata("tenant", "other"), client.Metadata("user", "\x00\xff"),
		client.TraceParent(traceParent), client.IdempotencyKey([16]byte{15: 1}))
	sibling := tenant.With(client.Metadata("sibling", ""))
	for _, row := range []struct {
		view *client.Client
		want string
	}{
		{c, " map[] []"},
		{tenant, ` map["tenant":["acme"]] []`},
		{both, traceParent + ` map["tenant":["acme" "other"] "user":["\x00\xff"]] [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1]`},
		{sibling, ` map["sibling":[""] "tenant":["acme"]] []`},
		{c, " map[] []"},
	} {
		// Often enough that some go by the socket and some through shared memory.
		for range 3 * wire.SharedMemoryAfterCalls {
			got, err := client.Func0[string](row.view, "metadata_seen")(context.Background())
			must(t, err)
			if got != row.want {
				t.Fatalf("the function saw %q, want %q", got, row.want)
			}
		}
	}
	raw, err := tenant.CallRaw(context.Background(), "metadata_raw", []byte("!"), nil)
	must(t, err)
	if string(raw) != "[acme]!" {
		t.Fatalf("a raw function saw %q", raw)
	}
}

func TestMetadataOfReplies(t *testing.T) {
	c := newClient(t, metadataServer(t))
	want := map[string][]string{"cost": {"7", "8"}, "node": {"a"}}
	for _, bytes := range []int{0, 100, 20 << 10, 1 << 20} {
		for _, fails := range []bool{false, true} {
			for range 3 * wire.SharedMemoryAfterCalls {
				var got map[string][]string
				reply, err := client.Call[[]byte](context.Background(), c.With(client.ReplyMetadata(&got)), "metadata_answer", bytes, fails)
				if (err != nil) != fails || !fails && len(reply) != bytes {
					t.Fatal(len(reply), err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%d bytes, %v: got %v, want %v", bytes, fails, got, want)
				}
			}
		}
	}
	got := map[string][]string{"of": {"before"}}
	_, err := client.Call[string](context.Background(), c.With(client.ReplyMetadata(&got)), "metadata_seen")
	must(t, err)
	if got != nil {
		t.Fatalf("got %v of a reply without metadata", got)
	}
}

// Metadata are those of the answer that the caller gets: what came with an attempt that was
// repeated is dropped, whether the next one is answered without any or not at all.
func TestMetadataOfAFormerAttempt(t *testing.T) {
	for name, play := range map[string]func(p *peer){
		"a reply without metadata": func(p *peer) {
			conn := p.serve()
			conn.reply(conn.expect(wire.Request), []byte("again"))
		},
		"a lost connection": func(p *peer) {
			conn := p.serve()
			conn.expect(wire.Request)
			conn.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			got := map[string][]string{"of": {"before"}}
			done := begin(context.Background(), p.client().With(client.ReplyMetadata(&got)), "total", nil)
			conn := p.serve()
			refusal := failureOf(conn.expect(wire.Request), status.Errorf(status.Unavailable, "not now").With(status.OutcomeNotExecuted))
			refusal.Extensions = wire.AppendMetadata(nil, "cost", "7")
			conn.send(refusal)
			conn.end()
			play(p)
			wait(t, done)
			if got != nil {
				t.Errorf("got %v, which came with the first attempt", got)
			}
		})
	}
}

func TestMetadataHaveALimit(t *testing.T) {
	c := newClient(t, metadataServer(t))
	view := c
	for i := range 40 {
		view = view.With(client.Metadata(fmt.Sprint("key", i), strings.Repeat("x", 100)))
	}
	_, err := client.Call[string](context.Background(), view, "metadata_seen")
	expectFailure(t, err, status.ResourceExhausted, status.OutcomeNotExecuted)
	if !strings.Contains(err.Error(), "extension_bytes_max") {
		t.Errorf("the error does not name the limit: %v", err)
	}
}

func TestCallOptionsOutOfRange(t *testing.T) {
	c := newClient(t, metadataServer(t))
	for name, option := range map[string]client.CallOption{
		"timeout":        client.Timeout(0),
		"attempts":       client.Attempts(0),
		"pauses":         client.Backoff(time.Second, time.Millisecond),
		"upper case":     client.Metadata("Tenant", "x"),
		"no key":         client.Metadata("", "x"),
		"a long value":   client.Metadata("k", strings.Repeat("x", 5000)),
		"a trace parent": client.TraceParent("00-xyz"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Call[string](context.Background(), c.With(option), "metadata_seen")
			expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
		})
	}
}

func TestTimeoutOfAView(t *testing.T) {
	c := demoClient(t)
	start := time.Now()
	err := c.With(client.Timeout(30*time.Millisecond)).Call(context.Background(), "sleep", nil, 60_000)
	if !errors.Is(err, status.DeadlineExceeded) || time.Since(start) > patience {
		t.Fatal(err)
	}
}

// A call of an idempotent function whose connection is lost runs again, where the caller
// asks for that; otherwise its outcome is unknown.
func TestRetryUnknown(t *testing.T) {
	for name, row := range map[string]struct {
		options []client.CallOption
		again   bool
	}{
		"asked for": {[]client.CallOption{client.RetryUnknown()}, true},
		"not asked": {nil, false},
		"one only":  {[]client.CallOption{client.RetryUnknown(), client.Attempts(1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			done := begin(context.Background(), p.client().With(row.options...), "total", nil)
			lose := p.serve()
			request := lose.next()
			if request.Type == wire.Resolve {
				lose.send(idempotentFunction(t, request))
				request = lose.expect(wire.Request)
			}
			lose.end()
			if !row.again {
				expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
				return
			}
			conn := p.serve()
			conn.reply(conn.expect(wire.Request), []byte("again"))
			expectReply(t, wait(t, done), "again")
		})
	}
}

// Between two attempts a caller waits for half the mean pause at least.
func TestBackoffBetweenAttempts(t *testing.T) {
	const pause = 200 * time.Millisecond
	p := newPeer(t)
	done := begin(context.Background(), p.client().With(client.RetryUnknown(), client.Backoff(pause, pause)), "total", nil)
	conn := p.serve()
	conn.send(idempotentFunction(t, conn.expect(wire.Resolve)))
	conn.expect(wire.Request)
	lost := time.Now()
	conn.end()
	conn = p.serve()
	request := conn.expect(wire.Request)
	if waited := time.Since(lost); waited < pause/2 {
		t.Errorf("the call was sent again after %v, with a mean pause of %v", waited, pause)
	}
	conn.reply(request, []byte("again"))
	expectReply(t, wait(t, done), "again")
}

func idempotentFunction(t *testing.T, question wire.Frame) wire.Frame {
	t.Helper()
	f := describe(t, string(question.Payload), func([]byte) []byte { return nil })
	f.Idempotent = true
	answer := replyTo(question, f.AppendMessagePack(nil))
	answer.Codec = wire.CodecMessagePack
	return answer
}

// What came of a former attempt counts: that the last one was not executed says nothing.
func TestRetryUnknownEndsUnknown(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client().With(client.RetryUnknown(), client.Attempts(2)), "total", nil)
	conn := p.serve()
	conn.send(idempotentFunction(t, conn.expect(wire.Resolve)))
	conn.expect(wire.Request)
	conn.end()
	conn = p.serve()
	conn.fail(conn.expect(wire.Request), status.Unavailable, status.OutcomeNotExecuted)
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
}

func TestRetryUnknownNeedsAnIdempotentFunction(t *testing.T) {
	view := demoClient(t).With(client.RetryUnknown())
	_, err := client.Call[int64](context.Background(), view, "count")
	expectFailure(t, err, status.FailedPrecondition, status.OutcomeNotExecuted)
	_, err = view.CallRaw(context.Background(), "count", nil, nil)
	expectFailure(t, err, status.FailedPrecondition, status.OutcomeNotExecuted)
}

// A caller that waits for its server gets its answer from one that starts later, however
// many attempts that takes.
func TestWaitForReady(t *testing.T) {
	address := "unix:" + filepath.Join(t.TempDir(), "s")
	c := newClient(t, address)
	view := c.With(client.WaitForReady(), client.Backoff(time.Microsecond, time.Millisecond))
	_, err := client.Call[int64](context.Background(), c, "ack", 1, 2)
	expectFailure(t, err, status.Unavailable, status.OutcomeNotExecuted)
	_, err = client.Call[int64](context.Background(), view.With(client.Timeout(50*time.Millisecond)), "ack", 1, 2)
	if !errors.Is(err, status.DeadlineExceeded) && !errors.Is(err, status.Unavailable) {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := client.Call[int64](context.Background(), view, "ack", 1, 2)
		done <- err
	}()
	serve(t, address, demo.Register)
	must(t, <-done)
}

func TestViewsAreClosedWithTheirClient(t *testing.T) {
	c := demoClient(t)
	view := c.With(client.Metadata("a", "b"))
	_, err := client.Call[int64](context.Background(), view, "ack", 1, 2)
	must(t, err)
	must(t, c.Close())
	_, err = client.Call[int64](context.Background(), view, "ack", 1, 2)
	if !errors.Is(err, client.ErrClosed) {
		t.Fatal(err)
	}
}
