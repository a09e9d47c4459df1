package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// A place is an endpoint where a server may run, which counts what it executes.
type place struct {
	t        *testing.T
	address  string
	executed atomic.Int64
	// nap is how long its function takes.
	nap time.Duration
	// hold waits until holds is closed, and counts that in held.
	holds chan struct{}
	held  atomic.Int64
	// elsewhere says where work and hold can be called directly; see server.Elsewhere.
	elsewhere func(server.Peer) (string, time.Duration)
	stop      func()
}

func newPlace(t *testing.T, address string) *place {
	t.Helper()
	p := &place{t: t, address: address}
	t.Cleanup(p.end)
	p.start()
	return p
}

func newLocalPlace(t *testing.T) *place {
	t.Helper()
	return newPlace(t, "unix:"+filepath.Join(shortDirectory(t), "s"))
}

func (p *place) start(options ...server.Option) {
	p.t.Helper()
	if p.holds == nil {
		p.holds = make(chan struct{})
	}
	s, err := server.New(append(options, server.WithLogger(slog.New(slog.DiscardHandler)))...)
	must(p.t, err)
	var told []server.FunctionOption
	if p.elsewhere != nil {
		told = append(told, server.Elsewhere(p.elsewhere))
	}
	must(p.t, s.Register("work", func() { p.executed.Add(1); time.Sleep(p.nap) }, told...))
	must(p.t, s.Register("hold", func() { p.held.Add(1); <-p.holds }, told...))
	must(p.t, s.Register("stay", func() { p.executed.Add(1) }))
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, p.address)
	must(p.t, err)
	if listener.Addr().Network() == "tcp" { // the first time, it has drawn a port
		p.address = "tcp:" + listener.Addr().String()
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	p.stop = func() {
		cancel()
		must(p.t, <-served)
	}
}

func (p *place) end() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// shortDirectory is t.TempDir with a name that leaves a socket's path room.
func shortDirectory(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	return directory
}

// work makes so many calls, none of which fails.
func work(t *testing.T, c *client.Client, calls int) {
	t.Helper()
	for range calls {
		must(t, c.Call(context.Background(), "work", nil))
	}
}

// expectShare checks how many calls each place has executed since it was last asked.
func expectShare(t *testing.T, want map[*place]int64) {
	t.Helper()
	for p, count := range want {
		if got := p.executed.Swap(0); got != count {
			t.Errorf("%s has executed %d calls, want %d", p.address, got, count)
		}
	}
}

// Calls go to the nearest endpoint, and to the next one while that is away.
func TestNearestEndpoint(t *testing.T) {
	near, far := newLocalPlace(t), newPlace(t, "tcp:127.0.0.1:0")
	c := newClient(t, near.address+" | "+far.address)
	work(t, c, 50)
	expectShare(t, map[*place]int64{near: 50, far: 0})
	if transport := c.Transport(); transport != "shared memory" {
		t.Errorf("calls travel by %q", transport)
	}
	near.end()
	work(t, c, 50)
	expectShare(t, map[*place]int64{near: 0, far: 50})
	if transport := c.Transport(); transport != "tcp" {
		t.Errorf("calls travel by %q", transport)
	}
	all := c.Statistics().Endpoints
	if len(all) != 2 || all[0].Address != near.address || all[0].State != "rests" || all[0].Rests <= 0 || all[0].FailuresTotal == 0 || all[0].Connections != 0 ||
		all[1].Address != far.address || all[1].State != "in use" || all[1].Connections != 1 || all[1].FailuresTotal != 0 {
		t.Errorf("statistics: %+v", all)
	}
	near.start()
	returned, late := time.Now(), measureLateness()
	eventually(t, func() bool { work(t, c, 1); return near.executed.Load() > 0 }, func() string { return "calls do not return" })
	const bound = (wire.EndpointReturnMs + 100) * time.Millisecond
	if took := time.Since(returned); took > bound+late() {
		t.Errorf("calls came back after %v", took)
	}
	far.end()
	work(t, c, 50)
}

// One of several equals fails, then another one.
func TestEqualEndpoints(t *testing.T) {
	var places []*place
	var hosts []string
	for range 3 {
		p := newPlace(t, "tcp:127.0.0.1:0")
		places, hosts = append(places, p), append(hosts, strings.TrimPrefix(p.address, "tcp:"))
	}
	c := newClient(t, "tcp:"+strings.Join(hosts, ","))
	work(t, c, 300)
	for _, p := range places {
		if count := p.executed.Swap(0); count < 30 {
			t.Errorf("%s has %d of 300 calls", p.address, count)
		}
	}
	places[0].end()
	work(t, c, 100)
	places[1].end()
	work(t, c, 100)
	if total := places[0].executed.Load() + places[1].executed.Load() + places[2].executed.Load(); total != 200 {
		t.Errorf("200 calls were executed %d times", total)
	}
	places[0].start()
	eventually(t, func() bool { work(t, c, 1); return places[0].executed.Load() > 100 }, func() string { return "a server that came back is not used" })
}

// Calls go on while the nearest server is stopped and started, and each is executed once.
func TestRestartsOfTheNearest(t *testing.T) {
	near, far := newLocalPlace(t), newPlace(t, "tcp:127.0.0.1:0")
	c := newClient(t, near.address+" | "+far.address)
	const callers, restarts = 4, 10
	var calls atomic.Int64
	stop, done := make(chan struct{}), make(chan error)
	for range callers {
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if err := c.Call(context.Background(), "work", nil); err != nil {
					done <- err
					return
				}
				calls.Add(1)
			}
		}()
	}
	for range restarts {
		used := near.executed.Load()
		eventually(t, func() bool { return near.executed.Load() > used }, func() string { return "calls do not return" })
		near.end()
		used = far.executed.Load()
		eventually(t, func() bool { return far.executed.Load() > used }, func() string { return "calls do not move on" })
		near.start()
	}
	close(stop)
	for range callers {
		must(t, <-done)
	}
	if executed := near.executed.Load() + far.executed.Load(); executed != calls.Load() {
		t.Errorf("%d calls were executed %d times", calls.Load(), executed)
	}
}

// newPair returns two scripted servers with schemas of their own, and a client of both that makes
// one attempt.
func newPair(t *testing.T, options ...client.Option) (near, far *peer, c *client.Client) {
	t.Helper()
	near, far = newPeer(t), newPeer(t)
	far.welcome.SchemaHash = 8
	return near, far, newClient(t, near.address+" | "+far.address, append([]client.Option{client.WithAttempts(1)}, options...)...)
}

func withLimit(limit string) *status.Error {
	return &status.Error{Code: status.ResourceExhausted, Outcome: status.OutcomeNotExecuted, Message: "as the test says",
		Details: []status.Detail{{Type: "nearcall.limit", Value: limit}}}
}

// refuse answers the next hello with a refusal.
func (p *peer) refuse(code status.Code) {
	p.t.Helper()
	conn := p.accept()
	conn.readHello()
	refusal := wire.Welcome{Status: uint16(code), Refusal: "as the test says"}
	conn.write(refusal.Append(nil))
}

// What moves a call on to the next endpoint within one attempt.
func TestMovesOn(t *testing.T) {
	for name, fail := range map[string]func(*peer){
		"nobody listens":          func(p *peer) { p.listener.Close() },
		"refused as full":         func(p *peer) { p.refuse(status.ResourceExhausted) },
		"refused as stopping":     func(p *peer) { p.refuse(status.Unavailable) },
		"no version in common":    func(p *peer) { p.refuse(status.Unimplemented) },
		"no welcome, but the end": func(p *peer) { p.accept().end() },
		"lost before it was read": func(p *peer) {
			conn := p.serve()
			conn.awaitUnread()
			conn.end()
		},
		"DRAIN": func(p *peer) {
			conn := p.serve()
			conn.expect(wire.Request)
			conn.send(wire.Frame{Header: wire.Header{Type: wire.Drain}, Payload: []byte("restart")})
		},
		"unavailable": func(p *peer) {
			conn := p.serve()
			conn.fail(conn.expect(wire.Request), status.Unavailable, status.OutcomeNotExecuted)
		},
		"no such function": func(p *peer) {
			conn := p.serve()
			conn.fail(conn.expect(wire.Request), status.Unimplemented, status.OutcomeNotExecuted)
		},
		"too many calls": func(p *peer) {
			conn := p.serve()
			conn.send(failureOf(conn.expect(wire.Request), withLimit("calls_in_flight_per_user_max")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			near, far, c := newPair(t)
			done := begin(context.Background(), c, "echo", []byte("x"))
			fail(near)
			conn := far.serve()
			conn.reply(conn.expect(wire.Request), []byte("far"))
			expectReply(t, wait(t, done), "far")
		})
	}
}

// What does not: the call may have been executed, or it is the call that is refused.
func TestDoesNotMoveOn(t *testing.T) {
	failing := func(code status.Code, outcome status.Outcome) func(*peer) {
		return func(p *peer) {
			conn := p.serve()
			conn.fail(conn.expect(wire.Request), code, outcome)
		}
	}
	for name, row := range map[string]struct {
		fail    func(*peer)
		code    status.Code
		outcome status.Outcome
	}{
		"lost after it was read":  {func(p *peer) { conn := p.serve(); conn.expect(wire.Request); conn.end() }, status.Unavailable, status.OutcomeUnknown},
		"unavailable, unknown":    {failing(status.Unavailable, status.OutcomeUnknown), status.Unavailable, status.OutcomeUnknown},
		"the function's own":      {failing(status.Unavailable, status.OutcomeExecuted), status.Unavailable, status.OutcomeExecuted},
		"its own unimplemented":   {failing(status.Unimplemented, status.OutcomeExecuted), status.Unimplemented, status.OutcomeExecuted},
		"result lost":             {failing(status.ResourceExhausted, status.OutcomeExecutedResultLost), status.ResourceExhausted, status.OutcomeExecutedResultLost},
		"arguments":               {failing(status.InvalidArgument, status.OutcomeNotExecuted), status.InvalidArgument, status.OutcomeNotExecuted},
		"no permission":           {failing(status.PermissionDenied, status.OutcomeNotExecuted), status.PermissionDenied, status.OutcomeNotExecuted},
		"too large":               {failing(status.ResourceExhausted, status.OutcomeNotExecuted), status.ResourceExhausted, status.OutcomeNotExecuted},
		"another description":     {failing(status.Aborted, status.OutcomeNotExecuted), status.Aborted, status.OutcomeNotExecuted},
		"deadline":                {failing(status.DeadlineExceeded, status.OutcomeNotExecuted), status.DeadlineExceeded, status.OutcomeNotExecuted},
		"refused: no permission":  {func(p *peer) { p.refuse(status.PermissionDenied) }, status.PermissionDenied, status.OutcomeNotExecuted},
		"refused: not identified": {func(p *peer) { p.refuse(status.Unauthenticated) }, status.Unauthenticated, status.OutcomeNotExecuted},
	} {
		t.Run(name, func(t *testing.T) {
			near, far, c := newPair(t)
			done := begin(context.Background(), c, "echo", []byte("x"))
			row.fail(near)
			expectFailure(t, wait(t, done).err, row.code, row.outcome)
			far.expectNoConnection()
		})
	}
}

// A call that may have been executed is sent to another endpoint only as an attempt that its
// caller has allowed.
func TestRetryUnknownElsewhere(t *testing.T) {
	near, far, c := newPair(t)
	idempotent := c.With(client.RetryUnknown(), client.Attempts(2))
	done := make(chan error, 1)
	go func() { done <- idempotent.Call(context.Background(), "echo", nil) }()
	fn := func() {}
	description := describe(t, "echo", fn)
	description.Idempotent = true
	conn := near.serve()
	question := conn.expect(wire.Resolve)
	answer := replyTo(question, description.AppendMessagePack(nil))
	answer.Codec = wire.CodecMessagePack
	conn.send(answer)
	conn.expect(wire.Request)
	conn.end()
	conn = far.serve()
	question = conn.expect(wire.Resolve)
	answer = replyTo(question, description.AppendMessagePack(nil))
	answer.Codec = wire.CodecMessagePack
	conn.send(answer)
	conn.reply(conn.expect(wire.Request), []byte{0xc0})
	must(t, <-done)
}

// A server that does not answer costs a call a part of its time only, however short that is.
func TestSilentEndpoint(t *testing.T) {
	near, far, c := newPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*short)
	defer cancel()
	done := begin(ctx, c, "echo", []byte("x"))
	hanging := near.accept()
	hanging.readHello()
	conn := far.serve()
	conn.reply(conn.expect(wire.Request), []byte("far"))
	got := wait(t, done)
	expectReply(t, got, "far")
	if bound := wire.EndpointConnectMs*time.Millisecond + short; got.took > bound+got.late {
		t.Errorf("it took %v", got.took)
	}
	// Later calls leave the silent one alone.
	done = begin(ctx, c, "echo", []byte("x"))
	conn.reply(conn.expect(wire.Request), []byte("again"))
	if got := wait(t, done); got.took > short+got.late {
		t.Errorf("the next call took %v", got.took)
	}
}

func TestSilentEndpointAndShortDeadline(t *testing.T) {
	near, far, c := newPair(t)
	done := begin(shortContext(t), c, "echo", []byte("x"))
	near.accept().readHello()
	conn := far.serve()
	conn.reply(conn.expect(wire.Request), []byte("far"))
	expectReply(t, wait(t, done), "far")
}

// A call for which one endpoint has no place goes to the next one. If none has a place, it waits
// at the nearest.
func TestNoPlaceHere(t *testing.T) {
	near, far, c := newPair(t)
	near.welcome.CallsInFlightMax, far.welcome.CallsInFlightMax = 1, 1
	first := begin(context.Background(), c, "echo", nil)
	nearConn := near.serve()
	request := nearConn.expect(wire.Request)
	second := begin(context.Background(), c, "echo", nil)
	farConn := far.serve()
	other := farConn.expect(wire.Request)
	third := begin(context.Background(), c, "echo", nil)
	nearConn.reply(request, []byte("first"))
	nearConn.reply(nearConn.expect(wire.Request), []byte("third"))
	farConn.reply(other, []byte("second"))
	expectReply(t, wait(t, first), "first")
	expectReply(t, wait(t, second), "second")
	expectReply(t, wait(t, third), "third")
}

// A function that the nearest server does not have is looked for there once.
func TestFunctionElsewhere(t *testing.T) {
	near, far, c := newPair(t)
	done := begin(context.Background(), c, "echo", nil)
	nearConn := near.serve()
	nearConn.fail(nearConn.expect(wire.Request), status.Unimplemented, status.OutcomeNotExecuted)
	farConn := far.serve()
	farConn.reply(farConn.expect(wire.Request), nil)
	expectReply(t, wait(t, done), "")
	done = begin(context.Background(), c, "echo", nil)
	farConn.reply(farConn.expect(wire.Request), []byte("at once"))
	expectReply(t, wait(t, done), "at once")
	// Others still go to the nearest one.
	done = begin(context.Background(), c, "other", nil)
	nearConn.reply(nearConn.expect(wire.Request), []byte("near"))
	expectReply(t, wait(t, done), "near")
	// If no server has it, one of them says so.
	for range 2 {
		done = begin(context.Background(), c, "none", nil)
		nearConn.fail(nearConn.expect(wire.Request), status.Unimplemented, status.OutcomeNotExecuted)
		if farConn != nil {
			farConn.fail(farConn.expect(wire.Request), status.Unimplemented, status.OutcomeNotExecuted)
			farConn = nil
		}
		expectFailure(t, wait(t, done).err, status.Unimplemented, status.OutcomeNotExecuted)
	}
}

// The error of a call that no endpoint took has the reasons of all, and the code of one that
// may take it later.
func TestNoEndpointLeft(t *testing.T) {
	near := newPeer(t)
	missing := "unix:" + filepath.Join(t.TempDir(), "none")
	c := newClient(t, near.address+" | "+missing, client.WithAttempts(1))
	for range 2 {
		done := begin(context.Background(), c, "echo", nil)
		near.refuse(status.ResourceExhausted)
		failure := expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeNotExecuted)
		for _, text := range []string{"no server at " + missing, "\n" + near.address + ": as the test says"} {
			if !strings.Contains(failure.Message, text) {
				t.Errorf("%q does not say %q", failure.Message, text)
			}
		}
	}
	counted := c.Statistics()
	for _, e := range counted.Endpoints {
		if e.State != "rests" || e.FailuresTotal != 2 {
			t.Errorf("statistics: %+v", e)
		}
	}
	if counted.FailuresTotal != 2 || counted.ConnectionsRefusedTotal != 4 {
		t.Errorf("counted %+v", counted)
	}
}

// Attempts after the first one do not try everything that rests again.
func TestLaterAttemptsTryOneEndpoint(t *testing.T) {
	directory := t.TempDir()
	var all []string
	for i := range 5 {
		all = append(all, fmt.Sprintf("unix:%s/%d", directory, i))
	}
	c := newClient(t, strings.Join(all, " | "), client.WithAttempts(3))
	failure := expectFailure(t, c.Call(context.Background(), "echo", nil), status.Unavailable, status.OutcomeNotExecuted)
	for _, each := range all {
		if !strings.Contains(failure.Message, "no server at "+each) {
			t.Errorf("%q does not say what is wrong with %s", failure.Message, each)
		}
	}
	// On a busy machine some may have rested long enough meanwhile.
	if refused := c.Statistics().ConnectionsRefusedTotal; refused < 5+1+1 || refused >= 3*5 {
		t.Errorf("%d attempts to connect, want 7", refused)
	}
}

// A connection that is lost under a call lets the endpoint rest.
func TestLostEndpointRests(t *testing.T) {
	near, far, c := newPair(t)
	done := begin(context.Background(), c, "echo", nil)
	conn := near.serve()
	conn.expect(wire.Request)
	conn.end()
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
	done = begin(context.Background(), c, "echo", nil)
	conn = far.serve()
	conn.reply(conn.expect(wire.Request), []byte("far"))
	expectReply(t, wait(t, done), "far")
}

// An endpoint from which nothing comes is left alone, and tried beside calls.
func TestEndpointThatFallsSilent(t *testing.T) {
	near, far := newRemotePeer(t, "tcp"), newPeer(t)
	far.welcome.SchemaHash = 8
	c := newClient(t, near.address+"?silence=200 | "+far.address, client.WithAttempts(1))
	done := begin(context.Background(), c, "echo", nil)
	conn := near.serve()
	conn.expect(wire.Request)
	failure := expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeUnknown)
	if !strings.Contains(failure.Message, "nothing came from the server for 200ms") {
		t.Error(failure.Message)
	}
	conn = nil
	var rested bool
	for !rested { // until its first rest is over: it answers nobody, and no call waits for it
		done = begin(context.Background(), c, "echo", nil)
		if conn == nil {
			conn = far.serve()
		}
		conn.reply(conn.expect(wire.Request), []byte("far"))
		expectReply(t, wait(t, done), "far")
		rested = c.Statistics().Endpoints[0].FailuresTotal > 1
	}
}

// Interceptors and observers are told which endpoint it was.
func TestPeerOfSeveral(t *testing.T) {
	n := newNotebook()
	near, far, c := newPair(t, client.WithObserver(n.observer()))
	near.listener.Close()
	done := begin(context.Background(), c, "echo", nil)
	conn := far.serve()
	conn.reply(conn.expect(wire.Request), nil)
	expectReply(t, wait(t, done), "")
	if call := n.last(); call.Connection.Peer.Address != far.address || call.Attempt != 1 {
		t.Errorf("the call used %+v, attempt %d", call.Connection, call.Attempt)
	}
	expectLines(t, n.take(), "began echo 0 OK", "refused 0 unix socket UNAVAILABLE", "opened 1 unix socket", "started echo 1 OK", "ended echo 1 OK")
}

func TestCloseWhileConnectingToSeveral(t *testing.T) {
	near, far := newPeer(t), newPeer(t)
	c, err := client.New(near.address+" | "+far.address, client.WithAttempts(1))
	must(t, err)
	done := begin(context.Background(), c, "echo", nil)
	near.accept().readHello()
	must(t, c.Close())
	if wait(t, done).err == nil {
		t.Error("the call succeeded")
	}
	expectNoGoroutines(t)
}

func TestListsThatAreRefused(t *testing.T) {
	many := "tcp:a:1" + strings.Repeat(",a:1", wire.AddressEndpointsMax)
	for text, want := range map[string]string{
		many:                    "limit address_endpoints_max",
		"unix:/a | embed:/b.so": "cannot load a Go library",
	} {
		_, err := client.New(text)
		failure := expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
		if !strings.Contains(failure.Message, want) {
			t.Errorf("%.80q: %v", text, failure.Message)
		}
	}
	for _, timeout := range []time.Duration{0, -1, time.Hour} {
		_, err := client.New("unix:/a", client.WithEndpointConnectTimeout(timeout))
		expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	}
}

// BenchmarkEndpoints compares an address with one endpoint, the nearest of two, and equals.
func BenchmarkEndpoints(b *testing.B) {
	near := demoServer(b) + "?shm=off"
	far := serveDemo(b, "tcp:127.0.0.1:0")
	equal := strings.TrimPrefix(serveDemo(b, "tcp:127.0.0.1:0"), "tcp:")
	for _, row := range []struct{ name, address string }{
		{"local alone", near}, {"local first", near + " | " + far}, {"remote alone", far}, {"remote equals", far + "," + equal},
	} {
		b.Run(row.name, func(b *testing.B) {
			c, err := client.New(row.address)
			must(b, err)
			defer c.Close()
			in, out := make([]byte, 64), make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallRaw(context.Background(), "echo", in, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
