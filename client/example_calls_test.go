package client_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
)

// exampleClient returns a client of the server that serveExample starts.
func exampleClient(options ...client.Option) (c *client.Client, stop func()) {
	address, end := serveExample()
	c, err := client.New(address, options...)
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close()
		end()
	}
}

// What takes a Caller can be given a client, a view, or something of one's own.
func ExampleCaller() {
	c, stop := exampleClient()
	defer stop()
	for _, caller := range []client.Caller{c, c.With(client.Timeout(time.Second)), sevens{}} {
		fmt.Println(client.Call[int64](context.Background(), caller, "add", 3, 5))
	}
	// Output:
	// 8 <nil>
	// 8 <nil>
	// 7 <nil>
}

// A sevens stands in for a server. Package nearcalltest has a Fake that does more.
type sevens struct{}

func (sevens) Call(_ context.Context, _ string, result any, _ ...any) error {
	*result.(*int64) = 7
	return nil
}

func (sevens) CallRaw(_ context.Context, _ string, payload, dst []byte) ([]byte, error) {
	return append(dst, payload...), nil
}

// An idempotent function may be sent again even if nobody knows whether it ran. If it is not
// idempotent, the call is refused before anything is sent.
func ExampleRetryUnknown() {
	c, stop := exampleClient()
	defer stop()
	patient := c.With(client.RetryUnknown(), client.Attempts(5), client.Backoff(10*time.Millisecond, time.Second))
	fmt.Println(client.Call[int64](context.Background(), patient, "size", "text"))
	_, err := client.Call[int64](context.Background(), patient, "add", 3, 4)
	fmt.Println(strings.Contains(err.Error(), "FAILED_PRECONDITION"))
	// Output:
	// 4 <nil>
	// true
}

// Each call tells where the metadata of its reply go.
func ExampleReplyMetadata() {
	c, stop := exampleClient()
	defer stop()
	var pairs map[string][]string
	size, err := client.Call[int64](context.Background(), c.With(client.ReplyMetadata(&pairs)), "size", "text")
	fmt.Println(size, err, pairs["node"])
	// Output: 4 <nil> [a]
}

// An interceptor of a view runs around the calls of that view, and may send the trace context
// of what it has begun.
func ExampleIntercept() {
	c, stop := exampleClient()
	defer stop()
	traced := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		if err := call.SetTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"); err != nil {
			return err
		}
		err := next(ctx)
		fmt.Println(call.Function(), call.TraceParent(), err)
		return err
	}
	_, _ = client.Call[int64](context.Background(), c.With(client.Intercept(traced)), "add", 3, 4)
	_, _ = client.Call[int64](context.Background(), c, "add", 3, 4)
	// Output: add 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01 <nil>
}

// A dialer makes the connection in another way than by the address.
func ExampleWithDialer() {
	address, stop := serveExample()
	defer stop()
	tunnel := func(ctx context.Context, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", strings.TrimPrefix(address, "unix:"))
	}
	c, err := client.New("tcp:far.example:7000", client.WithDialer(tunnel))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	fmt.Println(client.Call[int64](context.Background(), c, "add", 3, 4))
	// Output: 7 <nil>
}

// All views of a client are counted together.
func ExampleClient_Statistics() {
	c, stop := exampleClient()
	defer stop()
	for range 3 {
		_, _ = c.CallRaw(context.Background(), "echo", []byte("x"), nil)
	}
	_, _ = client.Call[string](context.Background(), c.With(client.Timeout(time.Second)), "find", "blue")
	counted := c.Statistics()
	fmt.Println(counted.Connections, counted.FailuresTotal, counted.RetriesTotal, counted.SentBytesTotal > 3)
	// Output: 1 1 0 true
}
