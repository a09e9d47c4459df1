package observe_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/server"
)

// A report is written by an observer of both sides.
type report struct {
	mu    sync.Mutex
	ended map[string]int
}

// observer returns an observer that counts calls by their end.
func (r *report) observer() *observe.Observer {
	return &observe.Observer{
		CallEnded: func(_ context.Context, call *observe.Call) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended[fmt.Sprint(call.Side, " ", call.Function, " ", call.Code())]++
		},
	}
}

// One observer serves both sides.
func Example() {
	counted := &report{ended: map[string]int{}}
	s, err := server.New(server.WithObserver(counted.observer()), server.WithLogger(slog.New(slog.DiscardHandler)))
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

	c, err := client.New(address, client.WithObserver(counted.observer()))
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = c.Call(context.Background(), "add", nil, 3, 4)
	_ = c.Call(context.Background(), "subtract", nil, 3, 4)
	c.Close()
	s.Shutdown(context.Background()) // the server's observer is told when an answer is on its way
	fmt.Println(counted.ended["caller add OK"], counted.ended["server add OK"], counted.ended["caller subtract UNIMPLEMENTED"])
	// Output: 1 1 1
}

// Observers that are joined are called in their order, with a State each.
func ExampleJoin() {
	named := func(name string) *observe.Observer {
		return &observe.Observer{
			CallBegan: func(_ context.Context, call *observe.Call) { call.State = name },
			CallEnded: func(_ context.Context, call *observe.Call) { fmt.Println(call.State) },
		}
	}
	joined := observe.Join(named("metrics"), nil, named("traces"))
	call := new(observe.Call)
	joined.CallBegan(context.Background(), call)
	joined.CallEnded(context.Background(), call)
	// Output:
	// metrics
	// traces
}
