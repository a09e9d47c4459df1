package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// An interceptor sees every call with its peer, before and after.
func ExampleWithInterceptor() {
	audit := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		started := time.Now()
		err := next(ctx)
		fmt.Fprintf(os.Stderr, "%s by uid %d: %v in %v\n", call.Function(), call.Peer().UserID, err, time.Since(started))
		return err
	}
	_, _ = server.New(server.WithInterceptor(audit))
}
