package client_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// demoServer serves the demonstration functions and returns its address.
func demoServer(t testing.TB) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	return serveDemo(t, "unix:"+filepath.Join(directory, "s"))
}

func serveDemo(t testing.TB, address string) string {
	t.Helper()
	return serve(t, address, demo.Register)
}

func serve(t testing.TB, address string, register func(*server.Server)) string {
	t.Helper()
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	register(s)
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, address)
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		must(t, <-served)
	})
	if listener.Addr().Network() == "tcp" {
		return "tcp:" + listener.Addr().String()
	}
	return address
}

// Without a shared clock the time that is left travels.
func TestTCP(t *testing.T) {
	c := newClient(t, serveDemo(t, "tcp:127.0.0.1:0"))
	ctx := context.Background()
	sum, err := client.Call[int64](ctx, c, "ack", 2, 3)
	must(t, err)
	if sum != 9 {
		t.Fatalf("got %d", sum)
	}
	large := make([]byte, 3<<20)
	got, err := c.CallRaw(ctx, "echo", large, nil)
	must(t, err)
	if len(got) != len(large) {
		t.Fatalf("%d bytes came back as %d", len(large), len(got))
	}
	err = c.Call(shortContext(t), "sleep", nil, 5000)
	if !errors.Is(err, status.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func demoClient(t *testing.T, options ...client.Option) *client.Client {
	t.Helper()
	return newClient(t, demoServer(t), options...)
}

type person struct {
	Name string   `nearcall:"name"`
	Age  *int64   `nearcall:"age"`
	Tags []string `nearcall:"tags"`
}

// quotient is the place for the two results of divmod. Their types may differ.
type quotient struct {
	Quotient  int64
	Remainder int
}

type point struct {
	X float64 `nearcall:"x"`
	Y float64 `nearcall:"y"`
}

func TestDemoFunctions(t *testing.T) {
	c := demoClient(t)
	age := int64(36)
	moment := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for name, row := range map[string]struct {
		call func(context.Context) (any, error)
		want any
	}{
		"int64": {func(ctx context.Context) (any, error) { return client.Call[int64](ctx, c, "ack", 2, 3) }, int64(9)},
		"float": {func(ctx context.Context) (any, error) {
			return client.Func2[float64, float64, float64](c, "add")(ctx, 1, 2)
		}, 3.0},
		"string":   {func(ctx context.Context) (any, error) { return client.Func1[string, string](c, "upper")(ctx, "grün") }, "GRÜN"},
		"variadic": {func(ctx context.Context) (any, error) { return client.Call[int](ctx, c, "sum", 1, 2, 3, 4) }, 10},
		"two":      {func(ctx context.Context) (any, error) { return client.Call[[]int64](ctx, c, "divmod", 17, 5) }, []int64{3, 2}},
		"two of a kind": {func(ctx context.Context) (any, error) {
			return client.Func2[int64, int64, quotient](c, "divmod")(ctx, 17, 5)
		}, quotient{Quotient: 3, Remainder: 2}},
		"two by Call": {func(ctx context.Context) (any, error) {
			return client.Call[quotient](ctx, c, "divmod", 17, 5)
		}, quotient{Quotient: 3, Remainder: 2}},
		"none": {func(ctx context.Context) (any, error) { return client.Func0[int64](c, "one")(ctx) }, int64(1)},
		"struct": {func(ctx context.Context) (any, error) {
			return client.Call[string](ctx, c, "greet", person{"Ada", &age, []string{"a", "b"}})
		}, "Hello, Ada, 36 [a,b]"},
		"struct back": {func(ctx context.Context) (any, error) {
			return client.Func2[point, point, point](c, "move")(ctx, point{1, 2}, point{3, 4})
		}, point{4, 6}},
		"map": {func(ctx context.Context) (any, error) {
			return client.Call[map[string]int64](ctx, c, "word_count", "a b a")
		}, map[string]int64{"a": 2, "b": 1}},
		"time": {func(ctx context.Context) (any, error) {
			later, err := client.Func2[time.Time, time.Duration, time.Time](c, "later")(ctx, moment, time.Hour)
			return later.UTC(), err
		}, moment.Add(time.Hour)},
		"optional": {func(ctx context.Context) (any, error) { return client.Call[int64](ctx, c, "optional_sum", 5) }, int64(5)},
		"bytes":    {func(ctx context.Context) (any, error) { return client.Call[[]byte](ctx, c, "echo", []byte{0, 255}) }, []byte{0, 255}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := row.call(context.Background())
			must(t, err)
			if !reflect.DeepEqual(got, row.want) {
				t.Fatalf("got %v, want %v", got, row.want)
			}
		})
	}
}

func TestDemoErrors(t *testing.T) {
	c := demoClient(t)
	ctx := context.Background()
	err := c.Call(ctx, "fail", nil, int(status.NotFound), "nothing there")
	failure := expectFailure(t, err, status.NotFound, status.OutcomeExecuted)
	if len(failure.Details) != 1 || failure.Details[0].Type != "example.Hint" {
		t.Fatalf("details: %v", failure.Details)
	}
	expectFailure(t, c.Call(ctx, "plain_error", nil, "x"), status.Unknown, status.OutcomeExecuted)
	expectFailure(t, c.Call(ctx, "panic", nil, "x"), status.Internal, status.OutcomeExecuted)
	expectFailure(t, c.Call(ctx, "no_such_function", nil), status.Unimplemented, status.OutcomeNotExecuted)
	expectFailure(t, c.Call(ctx, "ack", nil, "three", 4), status.InvalidArgument, status.OutcomeNotExecuted)
	expectFailure(t, c.Call(ctx, "one", 3), status.InvalidArgument, status.OutcomeNotExecuted)
	for _, function := range []string{"sleep", "block"} {
		ctx, cancel := context.WithTimeout(ctx, short)
		start, late := time.Now(), measureLateness()
		err := c.Call(ctx, function, nil, 1000)
		cancel()
		if !errors.Is(err, status.DeadlineExceeded) {
			t.Fatalf("%s: %v", function, err)
		}
		expectOnTime(t, time.Since(start), short, late())
	}
}

func TestSchemaAndDescribe(t *testing.T) {
	c := demoClient(t)
	document, err := c.Schema(context.Background())
	must(t, err)
	greet := document.Function("greet")
	if greet == nil || len(greet.Params) != 1 {
		t.Fatalf("greet is %v", greet)
	}
	alone, err := c.Describe(context.Background(), "greet")
	must(t, err)
	if string(alone.JSON()) != string(greet.JSON()) {
		t.Fatalf("alone %s, in the document %s", alone.JSON(), greet.JSON())
	}
	_, err = c.Describe(context.Background(), "no_such_function")
	expectFailure(t, err, status.Unimplemented, status.OutcomeNotExecuted)
	stats, err := c.Stats(context.Background())
	must(t, err)
	if !strings.HasPrefix(stats, "{") {
		t.Fatalf("stats are %q", stats)
	}
}

func TestResultTooLargeForTheCaller(t *testing.T) {
	c := demoClient(t, client.WithFrameBytesMax(100_000))
	err := c.Call(context.Background(), "fill", nil, 200_000)
	expectFailure(t, err, status.ResourceExhausted, status.OutcomeExecutedResultLost)
}

// Values that share their parts may have no end.
func TestArgumentsAndResultsWithoutAnEnd(t *testing.T) {
	endless := func() any {
		value := any("x")
		for range 30 {
			value = []any{value, value}
		}
		return value
	}
	address := serve(t, "unix:"+filepath.Join(t.TempDir(), "s"), func(s *server.Server) {
		must(t, s.Register("echo", func(value any) any { return value }))
		must(t, s.Register("endless", endless))
	})
	c, err := client.New(address)
	must(t, err)
	defer c.Close()
	ctx := context.Background()
	expectFailure(t, c.Call(ctx, "echo", nil, endless()), status.ResourceExhausted, status.OutcomeNotExecuted)
	_, err = client.Func1[any, any](c, "echo")(ctx, endless())
	expectFailure(t, err, status.ResourceExhausted, status.OutcomeNotExecuted)
	expectFailure(t, c.Call(ctx, "endless", new(any)), status.ResourceExhausted, status.OutcomeExecutedResultLost)
}

// A mapping may leave fields out, a struct of the program may not; neither may have
// what the function's struct does not.
func TestFieldsOfArguments(t *testing.T) {
	c, ctx := demoClient(t), context.Background()
	for said, argument := range map[string]any{"Hello, ": map[string]any{}, "Hello, Ada": map[string]any{"name": "Ada"}, "Hello, Bob": person{Name: "Bob"}} {
		got, err := client.Call[string](ctx, c, "greet", argument)
		if must(t, err); got != said {
			t.Errorf("%v: %q", argument, got)
		}
	}
	type misspelt struct {
		Name string   `nearcall:"nmae"`
		Tags []string `nearcall:"tags"`
	}
	type lacking struct {
		Name string `nearcall:"name"`
	}
	type enough struct {
		Name string   `nearcall:"name"`
		Tags []string `nearcall:"tags"`
	}
	for _, argument := range []any{map[string]any{"nmae": "Ada"}, misspelt{}, lacking{}, map[string]string{"name": "Ada"}} {
		_, err := client.Call[string](ctx, c, "greet", argument)
		expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	}
	if said, err := client.Call[string](ctx, c, "greet", enough{Name: "Eve"}); err != nil || said != "Hello, Eve" {
		t.Errorf("without what is optional: %q, %v", said, err)
	}
}
