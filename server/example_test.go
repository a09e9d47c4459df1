package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

type person struct {
	Name string   `nearcall:"name"`
	Age  *int64   `nearcall:"age"` // a pointer is an optional value
	Tags []string `nearcall:"tags"`
}

func Example() {
	directory, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	address := "unix:" + filepath.Join(directory, "s")

	s, err := server.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Register("greet", func(p person) string { return "Hello, " + p.Name }, server.Params("person"))
	s.Register("half", half, server.Params("n"), server.Doc("Half of an even number."), server.Idempotent())

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	listener, err := s.Listen(ctx, address)
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error)
	go func() { served <- s.Serve(ctx, listener) }()

	c, err := client.New(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(client.Call[string](ctx, c, "greet", person{Name: "Ann"}))
	fmt.Println(client.Call[int64](ctx, c, "half", 4))
	fmt.Println(client.Call[int64](ctx, c, "half", 5))

	stop()
	fmt.Println("stopped:", <-served)
	// Output:
	// Hello, Ann <nil>
	// 2 <nil>
	// 0 nearcall: INVALID_ARGUMENT: 5 is odd (executed)
	// stopped: <nil>
}

func half(_ context.Context, n int64) (int64, error) {
	if n%2 != 0 {
		return 0, status.Errorf(status.InvalidArgument, "%d is odd", n)
	}
	return n / 2, nil
}

// exampleServer serves on a socket of its own, and returns a client. The function that it
// returns ends both.
func exampleServer(s *server.Server, options ...client.Option) (c *client.Client, stop func()) {
	directory, err := os.MkdirTemp("", "nc")
	if err != nil {
		panic(err)
	}
	address := "unix:" + filepath.Join(directory, "s")
	listener, err := s.Listen(context.Background(), address)
	if err != nil {
		panic(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(context.Background(), listener) }()
	c, err = client.New(address, options...)
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close()
		s.Shutdown(context.Background())
		<-served
		os.RemoveAll(directory)
	}
}

// newExampleServer returns a server that logs nothing.
func newExampleServer(options ...server.Option) *server.Server {
	s, err := server.New(append([]server.Option{server.WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	if err != nil {
		panic(err)
	}
	return s
}

// An interceptor sees every call with its peer, before and after.
func ExampleWithInterceptor() {
	audit := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		arguments, err := call.Request().Values()
		if err != nil {
			return err
		}
		err = next(ctx)
		results, _ := call.Reply().Values()
		fmt.Println(call.Function(), arguments, results, err, call.Peer().UserID == uint32(os.Getuid()))
		return err
	}
	s := newExampleServer(server.WithInterceptor(audit))
	s.Register("half", half)
	c, stop := exampleServer(s)
	defer stop()
	_ = c.Call(context.Background(), "half", nil, 4)
	_ = c.Call(context.Background(), "half", nil, 5)
	// Output:
	// half [4] [2] <nil> true
	// half [5] [] nearcall: INVALID_ARGUMENT: 5 is odd (executed) true
}

// An interceptor may be for one function alone.
func ExampleIntercept() {
	onlyTwice := func() intercept.Interceptor {
		var calls atomic.Int64
		return func(ctx context.Context, _ intercept.Call, next intercept.Next) error {
			if calls.Add(1) > 2 {
				return status.Errorf(status.ResourceExhausted, "two calls are enough")
			}
			return next(ctx)
		}
	}
	s := newExampleServer()
	s.Register("half", half, server.Intercept(onlyTwice()))
	c, stop := exampleServer(s)
	defer stop()
	for range 3 {
		fmt.Println(client.Call[int64](context.Background(), c, "half", 4))
	}
	// Output:
	// 2 <nil>
	// 2 <nil>
	// 0 nearcall: RESOURCE_EXHAUSTED: two calls are enough (not executed)
}

// Functions of a group have a prefix, options and interceptors in common.
func ExampleServer_Group() {
	mustKnow := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		if !slices.Contains(call.Request().Metadata()["password"], "sesame") {
			return status.Errorf(status.PermissionDenied, "%s is for administrators", call.Function())
		}
		return next(ctx)
	}
	s := newExampleServer()
	admin := s.Group("admin.", server.Intercept(mustKnow), server.MaxConcurrency(1))
	admin.Register("reload", func() string { return "reloaded" })
	c, stop := exampleServer(s)
	defer stop()
	ctx := context.Background()
	fmt.Println(client.Call[string](ctx, c, "admin.reload"))
	fmt.Println(client.Call[string](ctx, c.With(client.Metadata("password", "sesame")), "admin.reload"))
	// Output:
	//  nearcall: PERMISSION_DENIED: admin.reload is for administrators (not executed)
	// reloaded <nil>
}

// A Bookshop is a service: its exported methods are served. In the source of a program it has
// the line
//
//	//go:generate nearcall gen service Bookshop --output bookshop_functions.go
//
// which writes the method DescribeFunctions.
type Bookshop struct{ titles map[int64]string }

// GetTitle returns the title of a book.
func (b *Bookshop) GetTitle(_ context.Context, number int64) (string, error) {
	title, found := b.titles[number]
	if !found {
		return "", status.Errorf(status.NotFound, "there is no book %d", number)
	}
	return title, nil
}

// DescribeFunctions tells package server what reflection cannot: see server.Describer.
func (*Bookshop) DescribeFunctions() map[string][]server.FunctionOption {
	return map[string][]server.FunctionOption{
		"GetTitle": {server.Params("number"), server.Doc("GetTitle returns the title of a book.")},
	}
}

// The exported methods of a value become functions.
func ExampleServer_RegisterService() {
	s := newExampleServer()
	s.RegisterService("books.", &Bookshop{titles: map[int64]string{7: "Emma"}})
	c, stop := exampleServer(s)
	defer stop()
	ctx := context.Background()
	described, err := c.Describe(ctx, "books.get_title")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(described.Name, described.Params, described.Doc)
	fmt.Println(client.Call[string](ctx, c, "books.get_title", 7))
	// Output:
	// books.get_title [{number int64}] GetTitle returns the title of a book.
	// Emma <nil>
}

// A function reads what came with its call, and answers metadata.
func ExampleCallFromContext() {
	s := newExampleServer()
	s.Register("report", func(ctx context.Context) string {
		call, _ := server.CallFromContext(ctx)
		call.AddReplyMetadata("cost", "7")
		return fmt.Sprint("for ", call.Metadata["tenant"], " in ", call.TraceParent)
	})
	c, stop := exampleServer(s)
	defer stop()
	var pairs map[string][]string
	view := c.With(client.Metadata("tenant", "acme"), client.ReplyMetadata(&pairs),
		client.TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	text, err := client.Call[string](context.Background(), view, "report")
	fmt.Println(text, err)
	fmt.Println(pairs)
	// Output:
	// for [acme] in 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 <nil>
	// map[cost:[7]]
}

// Shutdown answers what was accepted. A function that waits for long is told by Draining.
func ExampleServer_Shutdown() {
	s := newExampleServer()
	waiting := make(chan struct{})
	s.Register("news", func(ctx context.Context) (string, error) {
		call, _ := server.CallFromContext(ctx)
		close(waiting)
		select {
		case <-call.Draining():
			return "no news; the server stops", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	c, stop := exampleServer(s)
	defer stop()
	go func() {
		<-waiting
		s.Shutdown(context.Background())
	}()
	fmt.Println(client.Call[string](context.Background(), c, "news"))
	fmt.Println(s.ListenAndServe(context.Background(), "unix:/run/demo/again.sock"))
	// Output:
	// no news; the server stops <nil>
	// nearcall: the server was shut down or closed
}

// A function that may be slow, even if rarely, runs apart, so that it never delays others.
func ExampleApart() {
	s := newExampleServer()
	s.Register("report", func() string { return "done" }, server.Apart(), server.MaxConcurrency(4))
	c, stop := exampleServer(s)
	defer stop()
	fmt.Println(client.Call[string](context.Background(), c, "report"))
	// Output: done <nil>
}

// The server counts the calls of each function.
func ExampleServer_Statistics() {
	s := newExampleServer()
	s.Register("half", half)
	c, stop := exampleServer(s)
	defer stop()
	_ = c.Call(context.Background(), "half", nil, 4)
	_ = c.Call(context.Background(), "half", nil, 5)
	counted := s.Statistics()
	fmt.Println(counted.ConnectionsTotal, counted.Functions["half"].Calls, counted.Functions["half"].Failures)
	// Output: 1 2 1
}
