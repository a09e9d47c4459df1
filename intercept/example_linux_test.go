package intercept_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
)

// A counter counts calls by side and function.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counter) count(ctx context.Context, call intercept.Call, next intercept.Next) error {
	err := next(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[fmt.Sprint(call.Side(), " ", call.Function())]++
	return err
}

// One interceptor serves both sides.
func Example() {
	counted := &counter{calls: map[string]int{}}
	s, err := server.New(server.WithInterceptor(counted.count), server.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Register("add", func(a, b int64) int64 { return a + b })
	directory, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	address := "unix:" + filepath.Join(directory, "s")
	listener, err := s.Listen(context.Background(), address)
	if err != nil {
		fmt.Println(err)
		return
	}
	go s.Serve(context.Background(), listener)
	defer s.Shutdown(context.Background())

	c, err := client.New(address, client.WithInterceptor(counted.count))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for range 3 {
		_ = c.Call(context.Background(), "add", nil, 3, 4)
	}
	fmt.Println(counted.calls["caller add"], counted.calls["server add"])
	// Output: 3 3
}
