package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// What an interceptor sees of a call, on either side.
type seen struct {
	Side, Function, TraceParent string
	Arguments, Result           []any
	Request, Reply              map[string][]string
	Error                       string
	Bounded                     bool
	Kind                        intercept.Kind
	Codec                       intercept.Codec
	RequestBytes, ReplyBytes    int
	Local                       bool
	ProcessID                   int32
}

// watch returns an interceptor that keeps what it saw last.
func watch(into *atomic.Pointer[seen]) intercept.Interceptor {
	return func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		got := &seen{Side: call.Side().String(), Function: call.Function(), TraceParent: call.TraceParent(), Kind: call.Kind(), Codec: call.Request().Codec(),
			RequestBytes: len(call.Request().Bytes()), Local: call.Peer().Local, ProcessID: call.Peer().ProcessID}
		_, got.Bounded = ctx.Deadline()
		var failures [3]error
		failures[0] = call.AddMetadata("by", call.Side().String())
		got.Arguments, failures[1] = call.Request().Values()
		err := next(ctx)
		got.Result, failures[2] = call.Reply().Values()
		got.Request, got.Reply = call.Request().Metadata(), call.Reply().Metadata()
		got.ReplyBytes = len(call.Reply().Bytes())
		if err != nil {
			got.Error = err.Error()
		}
		into.Store(got)
		return errors.Join(err, errors.Join(failures[:]...))
	}
}

// One interceptor serves both sides, and sees the same call.
func TestInterceptorsOfBothSides(t *testing.T) {
	var served, called atomic.Pointer[seen]
	address := serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), func(s *server.Server) {
		must(t, s.Register("half", func(n int64) (int64, error) {
			if n%2 != 0 {
				return 0, status.Errorf(status.InvalidArgument, "%d is odd", n)
			}
			return n / 2, nil
		}, server.Intercept(watch(&served))))
		must(t, s.Register("raw", func(data []byte) []byte { return data }, server.Intercept(watch(&served))))
	})
	c := newClient(t, address, client.WithInterceptor(watch(&called)))
	view := c.With(client.TraceParent(traceParent), client.Metadata("tenant", "acme"))
	request := map[string][]string{"tenant": {"acme"}, "by": {"caller"}}
	reply := map[string][]string{"by": {"server"}}
	for _, row := range []struct {
		call func() error
		want seen
	}{
		{func() error { _, err := client.Call[int64](context.Background(), view, "half", 4); return err },
			seen{Function: "half", Arguments: []any{int64(4)}, Result: []any{int64(2)}, Codec: intercept.MessagePack, RequestBytes: 2, ReplyBytes: 1}},
		{func() error { _, err := client.Func1[int64, int64](view, "half")(context.Background(), 5); return err },
			seen{Function: "half", Arguments: []any{int64(5)}, Error: "nearcall: INVALID_ARGUMENT: 5 is odd (executed)", Codec: intercept.MessagePack, RequestBytes: 2}},
		{func() error {
			_, err := view.CallRaw(context.Background(), "raw", []byte("hi"), []byte("before"))
			return err
		},
			seen{Function: "raw", Arguments: []any{[]byte("hi")}, Result: []any{[]byte("hi")}, Codec: intercept.Raw, RequestBytes: 2, ReplyBytes: 2}},
	} {
		err := row.call()
		if (err != nil) != (row.want.Error != "") {
			t.Fatalf("%s: %v", row.want.Function, err)
		}
		row.want.TraceParent, row.want.Request, row.want.Reply, row.want.Bounded = traceParent, request, reply, true
		row.want.Kind, row.want.Local = intercept.Function, true
		for side, got := range map[string]*seen{"caller": called.Load(), "server": served.Load()} {
			row.want.Side, row.want.ProcessID = side, 0
			if side == "server" {
				row.want.ProcessID = int32(os.Getpid())
			}
			if !reflect.DeepEqual(*got, row.want) {
				t.Errorf("the %s's interceptor saw %+v, want %+v", side, *got, row.want)
			}
		}
	}
}

func TestInterceptorsOfClients(t *testing.T) {
	foreign := status.Errorf(status.NotFound, "of a call elsewhere").With(status.OutcomeExecuted)
	around := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		switch call.Function() {
		case "refused":
			return errors.New("refused")
		case "refused_by_another":
			return foreign
		case "forgotten":
			return nil
		case "swallowed":
			_ = next(ctx)
			return nil
		case "replaced":
			_ = next(ctx)
			return errors.New("replaced")
		case "twice":
			return errors.Join(next(ctx), next(ctx))
		}
		return next(ctx)
	}
	for name, want := range map[string]struct {
		code    status.Code
		outcome status.Outcome
		runs    int64
	}{
		"refused":            {status.Unknown, status.OutcomeNotExecuted, 0},
		"refused_by_another": {status.NotFound, status.OutcomeNotExecuted, 0},
		"forgotten":          {status.Internal, status.OutcomeNotExecuted, 0},
		"swallowed":          {status.Aborted, status.OutcomeExecuted, 1},
		"replaced":           {status.Unknown, status.OutcomeExecuted, 1},
		"twice":              {status.Aborted, status.OutcomeExecuted, 1},
		"plain":              {status.Aborted, status.OutcomeExecuted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			address := serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), func(s *server.Server) {
				must(t, s.Register(name, func() error { runs.Add(1); return status.Errorf(status.Aborted, "no") }))
			})
			c := newClient(t, address, client.WithInterceptor(around))
			err := c.Call(context.Background(), name, nil)
			expectFailure(t, err, want.code, want.outcome)
			if runs.Load() != want.runs {
				t.Errorf("the function ran %d times, want %d", runs.Load(), want.runs)
			}
		})
	}
}

// A client's interceptor sends the trace context of what it has begun, in place of the one
// that the view has, which stays as it is. An answer has none.
func TestInterceptorsSetTheTraceContext(t *testing.T) {
	const child = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"
	served := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		if err := call.SetTraceParent(child); err == nil {
			t.Error("an answer has been given a trace context")
		}
		return next(ctx)
	}
	address := serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), func(s *server.Server) {
		must(t, s.Register("seen", func(ctx context.Context) string {
			call, _ := server.CallFromContext(ctx)
			return fmt.Sprint(call.TraceParent, call.Metadata)
		}, server.Intercept(served)))
	})
	var parents []string
	traced := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		parents = append(parents, call.TraceParent())
		if err := call.SetTraceParent("nonsense"); err == nil {
			t.Error("nonsense is a trace context")
		}
		for _, of := range []string{traceParent, child} {
			if err := call.SetTraceParent(of); err != nil || call.TraceParent() != of {
				t.Errorf("the trace context is %q (%v), want %q", call.TraceParent(), err, of)
			}
		}
		return next(ctx)
	}
	c := newClient(t, address, client.WithInterceptor(traced))
	bare := c.With(client.Metadata("tenant", "acme"))
	for _, view := range []*client.Client{bare, bare.With(client.TraceParent(traceParent)), bare} {
		got, err := client.Call[string](context.Background(), view, "seen")
		must(t, err)
		if want := child + "map[tenant:[acme]]"; got != want {
			t.Errorf("the function saw %s, want %s", got, want)
		}
	}
	if want := []string{"", traceParent, ""}; !slices.Equal(parents, want) {
		t.Errorf("the interceptor found %q, want %q", parents, want)
	}
}

// A trace context that has no room beside the metadata is refused, by the limit's name.
func TestTraceContextsHaveALimit(t *testing.T) {
	traced := client.Intercept(func(_ context.Context, call intercept.Call, _ intercept.Next) error {
		return call.SetTraceParent(traceParent)
	})
	full := client.Metadata("k", strings.Repeat("x", wire.ExtensionBytesMax-wire.TraceParentBytes))
	err := newClient(t, demoServer(t)).With(full, traced).Call(context.Background(), "one", nil)
	expectFailure(t, err, status.Unknown, status.OutcomeNotExecuted)
	if !strings.Contains(err.Error(), "extension_bytes_max") {
		t.Errorf("the error does not name the limit: %v", err)
	}
}

// The interceptors of views run inside those of the client.
func TestInterceptorsOfViews(t *testing.T) {
	var ran []string
	as := func(name string) intercept.Interceptor {
		return func(ctx context.Context, _ intercept.Call, next intercept.Next) error {
			ran = append(ran, name)
			return next(ctx)
		}
	}
	c := newClient(t, demoServer(t), client.WithInterceptor(as("client")))
	view := c.With(client.Intercept(as("first"), as("second")))
	for _, row := range []struct {
		view *client.Client
		want []string
	}{
		{view.With(client.Intercept(as("inner"))), []string{"client", "first", "second", "inner"}},
		{view.With(client.Intercept(as("sibling"))), []string{"client", "first", "second", "sibling"}},
		{view, []string{"client", "first", "second"}},
		{c, []string{"client"}},
	} {
		ran = nil
		must(t, row.view.Call(context.Background(), "one", nil))
		if !slices.Equal(ran, row.want) {
			t.Errorf("around the call ran %q, want %q", ran, row.want)
		}
	}
}

// An option that would make each call panic is refused where it is given.
func TestInterceptorsThatAreNil(t *testing.T) {
	_, err := client.New("unix:/not/there", client.WithInterceptor(nil))
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = client.New("unix:/not/there", client.WithLogger(nil))
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	err = newClient(t, "unix:/not/there").With(client.Intercept(nil)).Call(context.Background(), "one", nil)
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
}

// Interceptors run within the time of their call.
func TestInterceptorsHaveTheDeadline(t *testing.T) {
	waits := func(ctx context.Context, _ intercept.Call, next intercept.Next) error {
		<-ctx.Done()
		return next(ctx)
	}
	c := newClient(t, demoServer(t), client.WithInterceptor(waits), client.WithTimeout(20*time.Millisecond))
	_, err := client.Call[int64](context.Background(), c, "ack", 1, 2)
	expectFailure(t, err, status.DeadlineExceeded, status.OutcomeNotExecuted)
}

// BenchmarkInterceptors compares calls without interceptors with calls that have one, which
// looks at nothing or at the values.
func BenchmarkInterceptors(b *testing.B) {
	values := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		if _, err := call.Request().Values(); err != nil {
			return err
		}
		return next(ctx)
	}
	for name, options := range map[string][]client.Option{
		"none":   nil,
		"one":    {client.WithInterceptor(func(ctx context.Context, _ intercept.Call, next intercept.Next) error { return next(ctx) })},
		"values": {client.WithInterceptor(values)},
	} {
		b.Run(name, func(b *testing.B) {
			c, err := client.New(demoServer(b), options...)
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

func ExampleWithInterceptor() {
	address, stop := serveExample()
	defer stop()

	told := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		arguments, err := call.Request().Values()
		if err != nil {
			return err
		}
		err = next(ctx)
		results, _ := call.Reply().Values()
		fmt.Println(call.Side(), call.Function(), arguments, results, err)
		return err
	}
	c, err := client.New(address, client.WithInterceptor(told))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = client.Call[int64](context.Background(), c, "add", 3, 4)
	// Output: caller add [3 4] [7] <nil>
}
