package client_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// describingPeer accepts the feature, and describes functions as the test says.
func describingPeer(t *testing.T) *peer {
	p := newPeer(t)
	p.welcome.Accepted |= wire.FeatureDescriptions
	return p
}

func (p *peer) serveDescribing() *peerConn {
	p.t.Helper()
	conn := p.serve()
	conn.parser.Features = p.welcome.Accepted
	return conn
}

// answer answers a question with a description.
func (c *peerConn) answer(f *schema.Function) {
	c.t.Helper()
	reply := replyTo(c.expect(wire.Resolve), f.AppendMessagePack(nil))
	reply.Codec = wire.CodecMessagePack
	c.send(reply)
}

// expectCheck reads a request that was encoded by f.
func (c *peerConn) expectCheck(f *schema.Function) wire.Frame {
	c.t.Helper()
	request := c.expect(wire.Request)
	if request.Status != f.Check() {
		c.t.Fatalf("a request with check 0x%x, want 0x%x", request.Status, f.Check())
	}
	return request
}

func transferring(t *testing.T, params ...string) *schema.Function {
	return describe(t, "transfer", func(string, string) {}, params...)
}

func beginTransfer(c *client.Client) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Call(context.Background(), "transfer", nil, "alice", "bob") }()
	return done
}

// Describe starts no function, so none was executed, however far the question or its answer came.
func TestDescribeExecutesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		sent int // bytes of the answer
		ends bool
		code status.Code
	}{
		"nothing, then the end":     {0, true, status.Unavailable},
		"a part, then the end":      {wire.HeaderBytes + 2, true, status.Unavailable},
		"nothing, then no patience": {0, false, status.Cancelled},
		"a part, then no patience":  {wire.HeaderBytes + 2, false, status.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			p := describingPeer(t)
			c := p.client(client.WithAttempts(1))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := c.Describe(ctx, "transfer")
				done <- err
			}()
			conn := p.serveDescribing()
			answer := described(t, conn.expect(wire.Resolve), func(string, string) {})
			conn.write(answer.Append(nil)[:row.sent])
			if row.ends {
				conn.end()
			} else {
				cancel()
			}
			expectFailure(t, <-done, row.code, status.OutcomeNotExecuted)
		})
	}
}

func TestRequestsSayTheirDescription(t *testing.T) {
	p := describingPeer(t)
	c, f := p.client(), transferring(t, "from", "to")
	done := beginTransfer(c)
	conn := p.serveDescribing()
	conn.answer(f)
	conn.reply(conn.expectCheck(f), []byte{0xC0})
	must(t, <-done)
	// It is asked for once, whatever calls by it.
	transfer := client.Func2[string, string, client.None](c, "transfer")
	for range 2 {
		called := make(chan error, 1)
		go func() { _, err := transfer(context.Background(), "alice", "bob"); called <- err }()
		conn.reply(conn.expectCheck(f), []byte{0xC0})
		must(t, <-called)
	}
	raw := begin(context.Background(), c, "transfer", nil)
	request := conn.expect(wire.Request)
	if request.Status != 0 {
		t.Errorf("raw bytes have a check, 0x%x", request.Status)
	}
	conn.reply(request, nil)
	expectReply(t, wait(t, raw), "")
}

func TestNoCheckWithoutTheFeature(t *testing.T) {
	p := newPeer(t)
	done := beginTransfer(p.client())
	conn := p.serve()
	conn.answer(transferring(t))
	if request := conn.expect(wire.Request); request.Status != 0 {
		t.Errorf("a request with check 0x%x", request.Status)
	} else {
		conn.reply(request, []byte{0xC0})
	}
	must(t, <-done)
}

func TestRefusedDescriptionIsAskedForAgain(t *testing.T) {
	p := describingPeer(t)
	first, second := transferring(t, "from", "to"), transferring(t, "source", "to")
	done := beginTransfer(p.client())
	conn := p.serveDescribing()
	conn.answer(first)
	conn.fail(conn.expectCheck(first), status.Aborted, status.OutcomeNotExecuted)
	conn.answer(second)
	conn.reply(conn.expectCheck(second), []byte{0xC0})
	must(t, <-done)
}

func TestRefusalOfTheSameDescriptionIsFinal(t *testing.T) {
	p := describingPeer(t)
	f := transferring(t, "from", "to")
	done := beginTransfer(p.client())
	conn := p.serveDescribing()
	conn.answer(f)
	conn.fail(conn.expectCheck(f), status.Aborted, status.OutcomeNotExecuted)
	conn.answer(f)
	expectFailure(t, <-done, status.Aborted, status.OutcomeNotExecuted)
}

// Another server has not refused it.
func TestRefusalIsOfOneServer(t *testing.T) {
	p := describingPeer(t)
	f := transferring(t, "from", "to")
	done := beginTransfer(p.client())
	conn := p.serveDescribing()
	conn.answer(f)
	conn.fail(conn.expectCheck(f), status.Aborted, status.OutcomeNotExecuted)
	conn.expect(wire.Resolve)
	p.welcome.SchemaHash++
	conn.end()
	conn = p.serveDescribing()
	conn.answer(f)
	conn.reply(conn.expectCheck(f), []byte{0xC0})
	must(t, <-done)
}

func TestRefusedDescriptionIsForgottenAfterTheLastAttempt(t *testing.T) {
	p := describingPeer(t)
	c := p.client(client.WithAttempts(1))
	first, second := transferring(t, "from", "to"), transferring(t, "source", "to")
	done := beginTransfer(c)
	conn := p.serveDescribing()
	conn.answer(first)
	conn.fail(conn.expectCheck(first), status.Aborted, status.OutcomeNotExecuted)
	expectFailure(t, <-done, status.Aborted, status.OutcomeNotExecuted)
	done = beginTransfer(c)
	conn.answer(second)
	conn.reply(conn.expectCheck(second), []byte{0xC0})
	must(t, <-done)
}

// What the function itself says is not about its description.
func TestAbortedByTheFunctionIsFinal(t *testing.T) {
	p := describingPeer(t)
	f := transferring(t)
	done := beginTransfer(p.client())
	conn := p.serveDescribing()
	conn.answer(f)
	conn.fail(conn.expectCheck(f), status.Aborted, status.OutcomeExecuted)
	expectFailure(t, <-done, status.Aborted, status.OutcomeExecuted)
}

func TestDescriptionsAreOfOneSchema(t *testing.T) {
	p := describingPeer(t)
	c, f := p.client(), transferring(t)
	for _, step := range []struct {
		hash  uint64
		asked bool
	}{{1, true}, {1, false}, {2, true}, {2, false}} {
		p.welcome.SchemaHash = step.hash
		done := beginTransfer(c)
		conn := p.serveDescribing()
		if step.asked {
			conn.answer(f)
		}
		conn.reply(conn.expectCheck(f), []byte{0xC0})
		must(t, <-done)
		conn.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: 2}})
		eventually(t, func() bool { return c.Transport() == "" }, func() string { return "DRAIN was not read" })
	}
}

// asDescribed is a description as Describe returns it.
func asDescribed(t *testing.T, of *schema.Function) *client.Function {
	t.Helper()
	f, err := client.ParseFunction(of.JSON())
	must(t, err)
	return f
}

func TestEncodedElsewhere(t *testing.T) {
	p := describingPeer(t)
	c := p.client()
	mine, other := transferring(t, "from", "to"), transferring(t, "to", "from")
	call := func(of *schema.Function) <-chan error {
		done, by := make(chan error, 1), asDescribed(t, of)
		go func() { _, err := c.CallEncoded(context.Background(), by, []byte{0x92, 0xA0, 0xA0}, nil); done <- err }()
		return done
	}
	done := call(mine)
	conn := p.serveDescribing()
	conn.answer(mine)
	conn.reply(conn.expectCheck(mine), []byte{0xC0})
	must(t, <-done)
	done = call(other)
	conn.answer(mine)
	expectFailure(t, <-done, status.Aborted, status.OutcomeNotExecuted)
	done = call(mine)
	conn.fail(conn.expectCheck(mine), status.Aborted, status.OutcomeNotExecuted)
	expectFailure(t, <-done, status.Aborted, status.OutcomeNotExecuted)
	done = call(other)
	conn.answer(other)
	conn.reply(conn.expectCheck(other), []byte{0xC0})
	must(t, <-done)
}

// A server of the time before states no hash and cannot check; its schema hash
// tells it from its predecessor.
func TestEncodedElsewhereForAnOldServer(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	mine := transferring(t, "from", "to")
	old := *mine
	old.Hash = ""
	done := make(chan error, 1)
	call := func() {
		_, err := c.CallEncoded(context.Background(), asDescribed(t, mine), []byte{0x92, 0xA0, 0xA0}, nil)
		done <- err
	}
	go call()
	conn := p.serve()
	conn.answer(&old)
	conn.reply(conn.expect(wire.Request), []byte{0xC0})
	must(t, <-done)
	p.welcome.SchemaHash++
	conn.end()
	eventually(t, func() bool { return c.Transport() == "" }, func() string { return "the end was not read" })
	changed := *transferring(t, "to", "from")
	changed.Hash = ""
	go call()
	p.serve().answer(&changed)
	expectFailure(t, <-done, status.Aborted, status.OutcomeNotExecuted)
}

// A call that cannot end well is not begun: the counter stays where it is.
func TestWhatDoesNotFitIsNotExecuted(t *testing.T) {
	c := demoClient(t)
	ctx := context.Background()
	for name, call := range map[string]func() error{
		"a result that is no pointer": func() error { return c.Call(ctx, "count", 5) },
		"a nil pointer":               func() error { return c.Call(ctx, "count", (*int)(nil)) },
		"a channel":                   func() error { return c.Call(ctx, "count", new(chan int)) },
		"a function":                  func() error { _, err := client.Call[func()](ctx, c, "count"); return err },
		"a struct with a channel":     func() error { _, err := client.Call[struct{ C chan int }](ctx, c, "count"); return err },
		"another type":                func() error { _, err := client.Call[string](ctx, c, "count"); return err },
		"a narrower type":             func() error { _, err := client.Call[int32](ctx, c, "count"); return err },
		"a duration":                  func() error { _, err := client.Call[time.Duration](ctx, c, "count"); return err },
		"a list":                      func() error { _, err := client.Call[[]int64](ctx, c, "count"); return err },
		"two results":                 func() error { _, err := client.Call[struct{ A, B int }](ctx, c, "count"); return err },
		"too few fields":              func() error { _, err := client.Call[struct{ A int64 }](ctx, c, "divmod", 7, 2); return err },
		"a field of another type":     func() error { _, err := client.Call[struct{ A, B string }](ctx, c, "divmod", 7, 2); return err },
		"Func, a channel":             func() error { _, err := client.Func0[chan int](c, "count")(ctx); return err },
		"Func, another type":          func() error { _, err := client.Func0[string](c, "count")(ctx); return err },
		"Func, a duration":            func() error { _, err := client.Func0[time.Duration](c, "count")(ctx); return err },
		"an argument too many":        func() error { return c.Call(ctx, "count", nil, 1) },
		"Func, an argument too many":  func() error { _, err := client.Func1[int, int](c, "count")(ctx, 1); return err },
		"an argument that is a channel": func() error {
			return c.Call(ctx, "count", nil, make(chan int))
		},
		"an argument of another type": func() error { return c.Call(ctx, "sleep", nil, time.Millisecond) },
	} {
		before, err := client.Call[int64](ctx, c, "count")
		must(t, err)
		expectFailure(t, call(), status.InvalidArgument, status.OutcomeNotExecuted)
		after, err := client.Call[int64](ctx, c, "count")
		must(t, err)
		if after != before+1 {
			t.Errorf("%s: the function ran", name)
		}
	}
	err := c.Call(ctx, "later", nil, time.Now(), int64(5))
	for _, said := range []string{"later", "argument 2 (by)", "int64", "duration"} {
		if !strings.Contains(err.Error(), said) {
			t.Errorf("%v does not say %s", err, said)
		}
	}
}

// Functions without result are called with what can hold none, and with nothing else.
func TestFunctionsWithoutResult(t *testing.T) {
	var runs atomic.Int64
	address := serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), func(s *server.Server) {
		must(t, s.Register("run", func() { runs.Add(1) }))
	})
	c, ctx := newClient(t, address), context.Background()
	type nothing struct{}
	for name, call := range map[string]func() error{
		"nil":            func() error { return c.Call(ctx, "run", nil) },
		"None":           func() error { _, err := client.Call[client.None](ctx, c, "run"); return err },
		"struct{}":       func() error { _, err := client.Call[struct{}](ctx, c, "run"); return err },
		"nothing":        func() error { _, err := client.Call[nothing](ctx, c, "run"); return err },
		"any":            func() error { _, err := client.Call[any](ctx, c, "run"); return err },
		"a pointer":      func() error { _, err := client.Call[*int](ctx, c, "run"); return err },
		"a list":         func() error { _, err := client.Call[[]int](ctx, c, "run"); return err },
		"a map":          func() error { _, err := client.Call[map[string]int](ctx, c, "run"); return err },
		"Func, None":     func() error { _, err := client.Func0[client.None](c, "run")(ctx); return err },
		"Func, struct{}": func() error { _, err := client.Func0[struct{}](c, "run")(ctx); return err },
		"FuncN":          func() error { _, err := client.FuncN[struct{}](c, "run")(ctx); return err },
	} {
		before := runs.Load()
		if err := call(); err != nil || runs.Load() != before+1 {
			t.Errorf("%s: %v, it ran %d times", name, err, runs.Load()-before)
		}
	}
	before := runs.Load()
	for _, call := range []func() error{
		func() error { _, err := client.Call[int64](ctx, c, "run"); return err },
		func() error { _, err := client.Call[string](ctx, c, "run"); return err },
		func() error { _, err := client.Call[struct{ A int }](ctx, c, "run"); return err },
		func() error { _, err := client.Func0[bool](c, "run")(ctx); return err },
	} {
		err := call()
		if expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted); !strings.Contains(err.Error(), "client.None") {
			t.Errorf("%v does not say what to take", err)
		}
	}
	if ran := runs.Load() - before; ran > 0 {
		t.Errorf("%d of the calls that cannot end well ran", ran)
	}
}

// More usages of one function than are remembered are compared again and again.
func TestManyUsages(t *testing.T) {
	c := demoClient(t)
	arguments := []any{}
	for count := range 40 {
		sum, err := client.Call[int](context.Background(), c, "sum", arguments...)
		if must(t, err); sum != count {
			t.Errorf("%d ones are %d", count, sum)
		}
		arguments = append(arguments, 1)
	}
}
