package server_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// describedAs returns the description, in JSON, of a function of Go.
func describedAs(t testing.TB, name string, fn any, params ...string) []byte {
	t.Helper()
	s := newServer(t)
	register(t, s, name, fn, server.Params(params...))
	f, _ := connectWithDescriptions(t, start(t, s)).describe(name)
	return f.JSON()
}

// registerForwarded registers a function that takes and returns bytes, and is passed on.
func registerForwarded(t testing.TB, s *server.Server, name string, pass forward.Func, options ...server.FunctionOption) {
	t.Helper()
	description := describedAs(t, name, func(data []byte) []byte { return data }, "data")
	if err := s.RegisterForwarded(description, pass, options...); err != nil {
		t.Fatal(err)
	}
}

// passNothing is a forward.Func that nobody calls.
func passNothing(context.Context, *forward.Request, []byte) (forward.Reply, error) {
	return forward.Reply{}, errors.New("this should not be called")
}

func TestRegisterForwardedRefusesWithASentence(t *testing.T) {
	one := describedAs(t, "one", func() int64 { return 1 })
	files := newServer(t, server.WithFileDescriptors(nil))
	register(t, files, "file", func(file *os.File) { file.Close() })
	withFiles, _ := connectWithDescriptions(t, start(t, files)).describe("file")
	for name, attempt := range map[string]func(s *server.Server) error{
		"description":                   func(s *server.Server) error { return s.RegisterForwarded([]byte("{}"), passNothing) },
		"is nil":                        func(s *server.Server) error { return s.RegisterForwarded(one, nil) },
		"files or connections":          func(s *server.Server) error { return s.RegisterForwarded(withFiles.JSON(), passNothing) },
		"the description says the rest": func(s *server.Server) error { return s.RegisterForwarded(one, passNothing, server.Idempotent()) },
		"never negative":                func(s *server.Server) error { return s.RegisterForwarded(one, passNothing, server.MaxRunTime(-1)) },
		"system's own": func(s *server.Server) error {
			return s.RegisterForwarded(bytes.Replace(one, []byte(`"one"`), []byte(`"nearcall.one"`), 1), passNothing)
		},
		"interceptor is nil": func(s *server.Server) error { return s.RegisterForwarded(one, passNothing, server.Intercept(nil)) },
		"name is taken": func(s *server.Server) error {
			return errors.Join(s.Register("one", func() {}), s.RegisterForwarded(one, passNothing))
		},
	} {
		if err := attempt(newServer(t)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

// A caller is told of a forwarded function what it would be told where that runs.
func TestForwardedFunctionIsDescribedAsItIs(t *testing.T) {
	far := newServer(t)
	register(t, far, "transfer", func(from, to string, _ *int64) {}, server.Params("from", "to", "amount"), server.Doc("Moves money."), server.Idempotent())
	f, _ := connectWithDescriptions(t, start(t, far)).describe("transfer")
	near := newServer(t)
	if err := near.RegisterForwarded(f.JSON(), passNothing); err != nil {
		t.Fatal(err)
	}
	got, _ := connectWithDescriptions(t, start(t, near)).describe("transfer")
	if !bytes.Equal(got.JSON(), f.JSON()) || got.Check() != f.Check() || got.Doc != "Moves money." {
		t.Errorf("%s, want %s", got.JSON(), f.JSON())
	}
}

// A request is passed on as it came, without the extensions that concern the connection.
func TestForwardedRequest(t *testing.T) {
	var got atomic.Pointer[forward.Request]
	s := newServer(t)
	registerForwarded(t, s, "pass", func(_ context.Context, request *forward.Request, dst []byte) (forward.Reply, error) {
		kept := *request
		kept.Payload, kept.Extensions = bytes.Clone(request.Payload), bytes.Clone(request.Extensions)
		got.Store(&kept)
		return forward.Reply{Payload: append(append(dst, "re:"...), request.Payload...), Extensions: wire.AppendExtension(wire.AppendMetadata(nil, "cost", "7"), 19, "elsewhere")}, nil
	})
	path := start(t, s)
	c := connectWithDescriptions(t, path)
	f, _ := c.describe("pass")
	endToEnd := wire.AppendMetadata(wire.AppendExtension(nil, wire.ExtensionTraceParent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), "tenant", "acme")
	for _, codec := range []wire.Codec{wire.CodecRaw, wire.CodecMessagePack, wire.CodecJSON} {
		c.lastID++
		frame := wire.Frame{
			Header:     wire.Header{Type: wire.Request, Codec: codec, CallID: c.lastID, Status: f.Check()},
			Extensions: wire.AppendExtension(wire.AppendExtension(endToEnd, wire.ExtensionFunctionName, "pass"), 77, "of this connection"),
			Payload:    []byte("as it is"),
		}
		c.send(frame.Append(nil))
		reply := c.next()
		if reply.Type != wire.Reply || reply.Codec != codec || string(reply.Payload) != "re:as it is" || !bytes.Equal(reply.Extensions, wire.AppendMetadata(nil, "cost", "7")) {
			t.Errorf("%v %v %q with extensions %q", reply.Type, reply.Codec, reply.Payload, reply.Extensions)
		}
		request := got.Load()
		if request.Function != "pass" || request.Codec != intercept.Codec(codec) || request.Check != f.Check() || string(request.Payload) != "as it is" || !bytes.Equal(request.Extensions, endToEnd) {
			t.Errorf("passed on: %+v", request)
		}
	}
	simple := dial(t, path)
	simple.send(simpleRequest(`{"f":"pass","a":["AA"]}`))
	simple.receive()
	if !strings.Contains(string(simple.pending), `re:["AA"]`) {
		t.Errorf("the simple protocol answers %q", simple.pending)
	}
	if request := got.Load(); request.Codec != intercept.JSON || request.Check != 0 || len(request.Extensions) > 0 {
		t.Errorf("passed on from the simple protocol: %+v", request)
	}
	// The beginning of a hash says by which description a request was written, too.
	simple.pending = nil
	simple.send(simpleRequest(`{"f":"pass","a":["AA"],"d":"` + f.Hash[:8] + `"}`))
	simple.receive()
	if request := got.Load(); request.Codec != intercept.JSON || request.Check != f.Check() || string(request.Payload) != `["AA"]` {
		t.Errorf("passed on from the simple protocol with a hash: %+v", request)
	}
}

// A request of another description never travels.
func TestForwardedChecksDescriptions(t *testing.T) {
	s := newServer(t)
	registerForwarded(t, s, "pass", passNothing)
	c := connectWithDescriptions(t, start(t, s))
	f, id := c.describe("pass")
	c.lastID++
	frame := wire.Frame{Header: wire.Header{Type: wire.Request, Codec: wire.CodecRaw, CallID: c.lastID, FunctionID: id, Status: f.Check() + 1}}
	c.send(frame.Append(nil))
	_, _, failure := c.decode(c.next())
	wantFailure(t, failure, status.Aborted, status.OutcomeNotExecuted)
}

// The outcome is that of whoever ran the function, or did not, and the mark says no more.
func TestForwardedOutcomes(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data }) // by which memory is got
	rows := map[string]struct {
		pass    func() error
		code    status.Code
		outcome status.Outcome
		mark    sharedmemory.Stage
	}{
		"not_executed":   {failing(status.Unavailable, status.OutcomeNotExecuted), status.Unavailable, status.OutcomeNotExecuted, sharedmemory.StageReceived},
		"unknown":        {failing(status.Unavailable, status.OutcomeUnknown), status.Unavailable, status.OutcomeUnknown, sharedmemory.StageStarted},
		"result_lost":    {failing(status.Unavailable, status.OutcomeExecutedResultLost), status.Unavailable, status.OutcomeExecutedResultLost, sharedmemory.StageFinished},
		"executed":       {failing(status.NotFound, status.OutcomeExecuted), status.NotFound, status.OutcomeExecuted, sharedmemory.StageFinished},
		"without":        {failing(status.NotFound, status.OutcomeNone), status.NotFound, status.OutcomeUnknown, sharedmemory.StageStarted},
		"plain":          {func() error { return errors.New("plain") }, status.Unknown, status.OutcomeUnknown, sharedmemory.StageStarted},
		"panics":         {func() error { panic("here") }, status.Internal, status.OutcomeUnknown, sharedmemory.StageStarted},
		"ends_goroutine": {func() error { runtime.Goexit(); return nil }, status.Internal, status.OutcomeUnknown, sharedmemory.StageStarted},
	}
	next := func(ctx context.Context, _ intercept.Call, next intercept.Next) error { return next(ctx) }
	for name, row := range rows {
		pass := func(context.Context, *forward.Request, []byte) (forward.Reply, error) {
			return forward.Reply{}, row.pass()
		}
		registerForwarded(t, s, name, pass)
		registerForwarded(t, s, "intercepted_"+name, pass, server.Intercept(next))
	}
	c := connectWithMemory(t, start(t, s))
	for name, row := range rows {
		for _, called := range []string{name, "intercepted_" + name} {
			request := c.Request(called, nil)
			c.put(&request)
			_, _, failure := c.decode(c.takeFrame())
			wantFailure(t, failure, row.code, row.outcome)
			if stage := c.End.Marks().Stage(request.CallID); stage != row.mark {
				t.Errorf("%s: the mark says %d, want %d", called, stage, row.mark)
			}
		}
	}
}

func failing(code status.Code, outcome status.Outcome) func() error {
	return func() error { return status.Errorf(code, "as asked").With(outcome) }
}

// An interceptor that fails after a forwarded call does not change what is known of that.
func TestForwardedOutcomesAndInterceptors(t *testing.T) {
	s := newServer(t)
	spoil := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		if err := next(ctx); err == nil || strings.HasPrefix(call.Function(), "panics") {
			panic("after it")
		}
		return errors.New("another error")
	}
	for name, outcome := range map[string]status.Outcome{"unknown": status.OutcomeUnknown, "not": status.OutcomeNotExecuted} {
		for _, prefix := range []string{"fails_", "panics_"} {
			registerForwarded(t, s, prefix+name, func(context.Context, *forward.Request, []byte) (forward.Reply, error) {
				return forward.Reply{}, failing(status.Unavailable, outcome)()
			}, server.Intercept(spoil))
		}
	}
	registerForwarded(t, s, "fine", func(_ context.Context, _ *forward.Request, dst []byte) (forward.Reply, error) {
		return forward.Reply{Payload: dst}, nil
	}, server.Intercept(spoil))
	c := connect(t, start(t, s))
	for name, want := range map[string]status.Outcome{"fails_unknown": status.OutcomeUnknown, "panics_unknown": status.OutcomeUnknown,
		"fails_not": status.OutcomeNotExecuted, "panics_not": status.OutcomeNotExecuted, "fine": status.OutcomeExecuted} {
		if _, failure := c.call(name); failure == nil || failure.Outcome != want {
			t.Errorf("%s: %v, want the outcome %v", name, failure, want)
		}
	}
}

// The context of what is passed on has the deadline of the call and ends with it, and one that
// has none waits for as long as it takes.
func TestForwardedContext(t *testing.T) {
	s, started, ended := newServer(t), make(chan struct{}, 1), make(chan error, 1)
	registerForwarded(t, s, "wait", func(ctx context.Context, _ *forward.Request, dst []byte) (forward.Reply, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return forward.Reply{}, ctx.Err()
	})
	registerForwarded(t, s, "bounded", func(ctx context.Context, _ *forward.Request, dst []byte) (forward.Reply, error) {
		if _, bounded := ctx.Deadline(); bounded {
			return forward.Reply{Payload: append(dst, 0xC3)}, nil
		}
		return forward.Reply{Payload: append(dst, 0xC2)}, nil
	})
	c := connect(t, start(t, s))
	id := c.begin("wait", 0)
	<-started
	c.cancel(id)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, _, failure := c.result()
	wantFailure(t, failure, status.Cancelled, status.OutcomeUnknown)
	// On a busy machine a deadline may pass before the server reads the request.
	for timeout := 20 * time.Millisecond; ; timeout *= 2 {
		c.begin("wait", wire.DeadlineField(monotonic.New().Ms(), timeout, true))
		if _, _, failure = c.result(); failure == nil || failure.Outcome != status.OutcomeNotExecuted {
			break
		}
	}
	wantFailure(t, failure, status.DeadlineExceeded, status.OutcomeUnknown)
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	if bounded, failure := c.call("bounded"); bounded != false {
		t.Errorf("a call without a deadline has one: %v, %v", bounded, failure)
	}
}

// A panic of what passes on leaves nothing behind that later calls would meet.
func TestForwardedConcurrencyIsLimited(t *testing.T) {
	s, hold := newServer(t), newGate()
	registerForwarded(t, s, "one_at_a_time", func(_ context.Context, _ *forward.Request, dst []byte) (forward.Reply, error) {
		hold.wait()
		return forward.Reply{Payload: append(dst, 0xC0)}, nil
	}, server.MaxConcurrency(1))
	c := connect(t, start(t, s))
	for range 3 {
		c.begin("one_at_a_time", 0)
	}
	<-hold.started
	if len(hold.started) > 0 {
		t.Error("more than one is passed on at a time")
	}
	close(hold.release)
	for range 3 {
		if _, _, failure := c.result(); failure != nil {
			t.Error(failure)
		}
	}
}

func TestUnknownFunctions(t *testing.T) {
	say := func(name string) error {
		switch name {
		case "later":
			return status.Errorf(status.Unavailable, "the engine is not connected").With(status.OutcomeExecuted)
		case "plain":
			return errors.New("not known here")
		}
		return nil
	}
	s := newServer(t, server.WithUnknownFunctions(say))
	path := start(t, s)
	c := connect(t, path)
	for name, code := range map[string]status.Code{"later": status.Unavailable, "plain": status.Unknown, "never": status.Unimplemented} {
		_, failure := c.call(name)
		wantFailure(t, failure, code, status.OutcomeNotExecuted)
		c.lastID++
		question := wire.Frame{Header: wire.Header{Type: wire.Resolve, CallID: c.lastID}, Payload: []byte(name)}
		c.send(question.Append(nil))
		_, _, failure = c.decode(c.next())
		wantFailure(t, failure, code, status.OutcomeNotExecuted)
	}
	simple := dial(t, path)
	simple.send(simpleRequest(`{"f":"later"}`))
	simple.receive()
	if !strings.Contains(string(simple.pending), "UNAVAILABLE") || !strings.Contains(string(simple.pending), "not executed") {
		t.Errorf("the simple protocol answers %q", simple.pending)
	}
}

// The description of a function with structs says the same after it has been registered.
func TestForwardedStructs(t *testing.T) {
	type inner struct{ Names []string }
	type outer struct {
		Inner *inner
		Other map[string]inner
	}
	description := describedAs(t, "nested", func(outer) (inner, error) { return inner{}, nil }, "value")
	parsed, err := schema.ParseFunctionJSON(description)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	if err := s.RegisterForwarded(description, passNothing); err != nil {
		t.Fatal(err)
	}
	got, _ := connectWithDescriptions(t, start(t, s)).describe("nested")
	if got.Hash != parsed.Hash {
		t.Errorf("%s, want %s", got.JSON(), description)
	}
}
