package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// serveExample stands for the server that a real program finds running.
func serveExample() (address string, stop func()) {
	directory, err := os.MkdirTemp("", "nc")
	if err != nil {
		panic(err)
	}
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		panic(err)
	}
	err = errors.Join(
		s.Register("add", func(a, b int64) int64 { return a + b }),
		s.Register("echo", func(data []byte) []byte { return data }),
		s.Register("size", func(ctx context.Context, text string) (int64, error) {
			call, _ := server.CallFromContext(ctx)
			return int64(len(text)), call.AddReplyMetadata("node", "a")
		}, server.Idempotent()),
		s.Register("find", func(key string) (string, error) {
			return "", status.Errorf(status.NotFound, "there is no %q", key)
		}))
	if err != nil {
		panic(err)
	}
	address = "unix:" + directory + "/nearcall.sock"
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, address)
	if err != nil {
		panic(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(ctx, listener) }()
	return address, func() {
		cancel()
		<-served
		_ = os.RemoveAll(directory)
	}
}

func Example() {
	address, stop := serveExample()
	defer stop()

	c, err := client.New(address, client.WithTimeout(2*time.Second))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	sum, err := client.Call[int64](context.Background(), c, "add", 3, 4)
	fmt.Println(sum, err)
	// Output: 7 <nil>
}

func ExampleFunc2() {
	address, stop := serveExample()
	defer stop()
	c, err := client.New(address)
	if err != nil {
		panic(err)
	}
	defer c.Close()

	add := client.Func2[int64, int64, int64](c, "add")
	for i := range int64(3) {
		sum, err := add(context.Background(), i, 10)
		fmt.Println(sum, err)
	}
	// Output:
	// 10 <nil>
	// 11 <nil>
	// 12 <nil>
}

func ExampleClient_CallRaw() {
	address, stop := serveExample()
	defer stop()
	c, err := client.New(address)
	if err != nil {
		panic(err)
	}
	defer c.Close()

	// The reply is appended to a buffer that is used again and again.
	buffer := make([]byte, 0, 64)
	for _, text := range []string{"one", "two"} {
		buffer, err = c.CallRaw(context.Background(), "echo", []byte(text), buffer[:0])
		fmt.Printf("%s %v\n", buffer, err)
	}
	// Output:
	// one <nil>
	// two <nil>
}

func ExampleClient_Call_errors() {
	address, stop := serveExample()
	defer stop()
	c, err := client.New(address)
	if err != nil {
		panic(err)
	}
	defer c.Close()

	var value string
	err = c.Call(context.Background(), "find", &value, "blue")
	var failure *status.Error
	switch {
	case errors.Is(err, status.NotFound):
		errors.As(err, &failure)
		fmt.Println(failure.Message)
	case errors.As(err, &failure) && failure.Outcome == status.OutcomeNotExecuted:
		fmt.Println("may be called again")
	}
	// Output: there is no "blue"
}

// A view has options for the calls that are made through it.
func ExampleClient_With() {
	address, stop := serveExample()
	defer stop()

	c, err := client.New(address)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	patient := c.With(client.Timeout(time.Minute), client.WaitForReady(), client.Metadata("tenant", "acme"))
	sum, err := client.Call[int64](context.Background(), patient, "add", 3, 4)
	fmt.Println(sum, err)
	// Output: 7 <nil>
}
