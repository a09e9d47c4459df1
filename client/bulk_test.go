package client_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
)

// A load has most of its bytes in one field.
type load struct {
	Label string `nearcall:"label"`
	Data  []byte `nearcall:"data"`
	Rest  []byte `nearcall:"rest"`
}

const loadBytes = 300 << 10

func newLoad(number int) load {
	return load{Label: fmt.Sprint(number), Data: bytes.Repeat([]byte{byte(number)}, loadBytes+number), Rest: []byte{byte(number)}}
}

func (l load) equal(other load) bool {
	return l.Label == other.Label && bytes.Equal(l.Data, other.Data) && bytes.Equal(l.Rest, other.Rest)
}

// A keeper has functions that keep what they are given.
type keeper struct {
	mu   sync.Mutex
	kept []load
}

func (k *keeper) keep(l load) load {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, l)
	return l
}

// startKeeper serves a keeper in this process.
func startKeeper(t *testing.T, options ...server.Option) (*server.Server, *keeper, string) {
	t.Helper()
	s, err := server.New(append(options, server.WithSharedMemoryAfter(1))...)
	must(t, err)
	k := new(keeper)
	must(t, s.Register("keep", k.keep))
	must(t, s.Register("keep_apart", k.keep, server.MaxConcurrency(4)))
	must(t, s.Register("borrow", func(l load) load { return l }, server.Borrow()))
	must(t, s.Register("borrow_apart", func(l load) load { return l }, server.Borrow(), server.MaxConcurrency(4)))
	must(t, s.Register("raw", func(data []byte) []byte { return data }))
	must(t, s.Register("leave", func(load) { runtime.Goexit() }))
	path := filepath.Join(t.TempDir(), "keeper.sock")
	listener, err := s.Listen(context.Background(), "unix:"+path)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return s, k, "unix:" + path
}

// Values that were kept, of arguments and of results, stay as they are whatever is called
// afterwards.
func TestLargeBytesInStructs(t *testing.T) {
	for _, route := range []string{"", "?shm=off"} {
		for _, function := range []string{"keep", "keep_apart"} {
			t.Run(function+route, func(t *testing.T) {
				s, k, address := startKeeper(t)
				c, err := client.New(address + route)
				must(t, err)
				keep := client.Func1[load, load](c, function)
				var results []load
				for number := range 40 {
					result, err := keep(context.Background(), newLoad(number))
					must(t, err)
					results = append(results, result)
				}
				k.mu.Lock()
				defer k.mu.Unlock()
				for number, result := range results {
					if !result.equal(newLoad(number)) || !k.kept[number].equal(newLoad(number)) {
						t.Fatalf("value %d is %q and %q, and has %d bytes", number, result.Label, k.kept[number].Label, len(result.Data))
					}
				}
				must(t, c.Close())
				eventually(t, func() bool { return s.Statistics().InputBytes == 0 && s.Statistics().OutputBytes == 0 },
					func() string { return fmt.Sprintf("%+v is still counted", s.Statistics()) })
			})
		}
	}
}

// A function that ends its goroutine leaves nothing of its arguments to the call after it.
func TestLargeBytesOfAFunctionThatEndsItsGoroutine(t *testing.T) {
	s, _, address := startKeeper(t)
	c, err := client.New(address)
	must(t, err)
	keep, leave := client.Func1[load, load](c, "keep"), client.Func1[load, client.None](c, "leave")
	for number := range 5 { // until the connection has its memory
		_, err := keep(context.Background(), newLoad(number))
		must(t, err)
	}
	for number := range 5 {
		if _, err := leave(context.Background(), newLoad(number)); err == nil {
			t.Fatal("a function that ended its goroutine has succeeded")
		}
		for _, sent := range []load{{Label: "small", Data: []byte{1}, Rest: []byte{2}}, newLoad(number)} {
			got, err := keep(context.Background(), sent)
			must(t, err)
			if !got.equal(sent) {
				t.Fatalf("%q came back as %q with %d bytes", sent.Label, got.Label, len(got.Data))
			}
		}
	}
	must(t, c.Close())
	eventually(t, func() bool { return s.Statistics().InputBytes == 0 },
		func() string { return fmt.Sprintf("%+v is still counted", s.Statistics()) })
}

// Callers that share a connection, of values in structs and of plain bytes, get what they have sent.
func TestLargeBytesOfManyCallers(t *testing.T) {
	_, _, address := startKeeper(t)
	c, err := client.New(address)
	must(t, err)
	defer c.Close()
	keep := client.Func1[load, load](c, "keep")
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			var dst []byte
			for round := range 10 {
				sent := newLoad(10*caller + round)
				got, err := keep(context.Background(), sent)
				if err != nil || !got.equal(sent) {
					t.Errorf("caller %d: %v, %q", caller, err, got.Label)
				}
				before := []byte("before")
				dst, err = c.CallRaw(context.Background(), "raw", sent.Data, append(dst[:0], before...))
				if err != nil || !bytes.Equal(dst, slices.Concat(before, sent.Data)) {
					t.Errorf("caller %d: %v, %d bytes", caller, err, len(dst))
				}
			}
		})
	}
	callers.Wait()
}

// Interceptors of either side see payloads as a whole.
func TestInterceptorsSeeLargeBytes(t *testing.T) {
	seen := make(chan int, 2)
	look := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		seen <- len(call.Request().Bytes())
		return next(ctx)
	}
	_, _, address := startKeeper(t, server.WithInterceptor(look))
	c, err := client.New(address, client.WithInterceptor(look))
	must(t, err)
	defer c.Close()
	sent := newLoad(1)
	for range 5 {
		got, err := client.Func1[load, load](c, "keep")(context.Background(), sent)
		must(t, err)
		if first, second := <-seen, <-seen; !got.equal(sent) || first != second || first < loadBytes {
			t.Fatalf("the interceptors saw %d and %d bytes", first, second)
		}
	}
}

// Functions that borrow and results that are reused carry the same values, and the memory of the
// result stays the same.
func TestBorrowedAndReusedBytes(t *testing.T) {
	for _, route := range []string{"", "?shm=off"} {
		for _, function := range []string{"borrow", "borrow_apart"} {
			t.Run(function+route, func(t *testing.T) {
				s, _, address := startKeeper(t)
				c, err := client.New(address + route)
				must(t, err)
				reusing := c.With(client.ReuseResult())
				result := load{Data: make([]byte, 0, 2*loadBytes)}
				room := &result.Data[:1][0]
				for number := range 40 {
					must(t, reusing.Call(context.Background(), function, &result, newLoad(number)))
					if !result.equal(newLoad(number)) || &result.Data[0] != room {
						t.Fatalf("value %d is %q, and has %d bytes", number, result.Label, len(result.Data))
					}
				}
				must(t, c.Close())
				eventually(t, func() bool { return s.Statistics().InputBytes == 0 && s.Statistics().OutputBytes == 0 },
					func() string { return fmt.Sprintf("%+v is still counted", s.Statistics()) })
			})
		}
	}
}
