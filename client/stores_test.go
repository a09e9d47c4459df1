package client_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	largeValues = 48 << 20
	largeValue  = 21<<20 + 7
	// A thread of the test is this user, whom the server does not trust.
	otherUserID = 12345
)

// A document is a value of which a part is large.
type document struct {
	Name  string    `nearcall:"name"`
	Data  []byte    `nearcall:"data"`
	Mean  []float64 `nearcall:"mean"`
	Lines []string  `nearcall:"lines"`
}

// serveLarge serves functions that take and return large values.
func serveLarge(t testing.TB, options ...server.Option) (*server.Server, string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	must(t, os.Chmod(directory, 0o755))
	options = append([]server.Option{server.WithLogger(slog.New(slog.DiscardHandler)), server.WithSocketMode(0o666),
		server.WithValueBytesMax(largeValues)}, options...)
	s, err := server.New(options...)
	must(t, err)
	must(t, s.Register("echo", func(data []byte) []byte { return data }))
	must(t, s.Register("sink", func([]byte) []byte { return nil }))
	must(t, s.Register("document", func(d document) document { return d }))
	must(t, s.Register("borrow", func(d document) document { return d }, server.Borrow()))
	must(t, s.Register("any", func(value any) any { return value }))
	must(t, s.Register("make", func(bytes int64) []byte { return pattern(int(bytes), 3) }))
	must(t, s.Register("sum", func(data []byte) int64 { return sumOf(data) }))
	must(t, s.Register("sleep", func(ctx context.Context, data []byte) int64 {
		<-ctx.Done()
		return sumOf(data)
	}, server.Apart()))
	must(t, s.Register("panic", func(data []byte) int64 { panic(fmt.Sprint(len(data))) }))
	ctx, stop := context.WithCancel(context.Background())
	address := "unix:" + filepath.Join(directory, "s")
	listener, err := s.Listen(ctx, address)
	must(t, err)
	listeners := []net.Listener{listener}
	if os.Geteuid() == 0 {
		listeners = append(listeners, listenAsOther(t, othersAddress(address)))
	}
	served := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() { served <- s.Serve(ctx, listener) }()
	}
	t.Cleanup(func() {
		stop()
		for range listeners {
			must(t, <-served)
		}
	})
	return s, address
}

// othersAddress is that at which serveLarge's server is another user's.
func othersAddress(address string) string { return filepath.Join(filepath.Dir(address), "others", "s") }

// listenAsOther returns a listener that another user has made.
func listenAsOther(t testing.TB, address string) net.Listener {
	t.Helper()
	path := strings.TrimPrefix(address, "unix:")
	must(t, os.Mkdir(filepath.Dir(path), 0o777))
	must(t, os.Chmod(filepath.Dir(path), 0o777))
	type made struct {
		listener net.Listener
		err      error
	}
	done := make(chan made, 1)
	go lockThreadAs(otherUserID, func() {
		listener, err := net.Listen("unix", path)
		done <- made{listener, err}
	}, func(err error) { done <- made{nil, err} })
	m := <-done
	must(t, m.err)
	return m.listener
}

func pattern(size int, seed byte) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i>>12)*7 + byte(i) + seed
	}
	return data
}

func sumOf(data []byte) (sum int64) {
	for _, b := range data {
		sum += int64(b)
	}
	return sum
}

// asOtherUser makes connections whose peer, for the server, is another user.
func asOtherUser(t *testing.T) client.Option {
	t.Helper()
	return client.WithDialer(func(_ context.Context, address string) (net.Conn, error) {
		type dialled struct {
			conn net.Conn
			err  error
		}
		done := make(chan dialled, 1)
		go lockThreadAs(otherUserID, func() {
			conn, err := net.Dial("unix", strings.TrimPrefix(address, "unix:"))
			done <- dialled{conn, err}
		}, func(err error) { done <- dialled{nil, err} })
		d := <-done
		return d.conn, d.err
	})
}

// expectNothingHeld waits until the server counts nothing any more. Stores are kept for a while.
func expectNothingHeld(t *testing.T, s *server.Server) {
	t.Helper()
	eventually(t, func() bool { return s.Statistics().InputBytes == 0 && s.Statistics().OutputBytes == 0 },
		func() string { return fmt.Sprintf("%+v is still counted", s.Statistics()) })
}

// Values above the frame go there and back by every route that may be taken, again and again.
func TestLargeValues(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users and must run as root")
	}
	for _, user := range []string{"the same user", "another user", "a server of another user"} {
		for _, warm := range []int{0, 40} {
			t.Run(fmt.Sprintf("%s after %d calls", user, warm), func(t *testing.T) {
				s, address := serveLarge(t)
				options := []client.Option{client.WithValueBytesMax(largeValues)}
				switch user {
				case "another user":
					options = append(options, asOtherUser(t))
				case "a server of another user":
					options, address = append(options, client.WithServerUsers(otherUserID)), othersAddress(address)
				}
				c := newClient(t, address, options...)
				ctx := context.Background()
				for range warm {
					_, err := c.CallRaw(ctx, "echo", []byte("small"), nil)
					must(t, err)
				}
				for round := range 3 {
					data := pattern(largeValue, byte(round))
					got, err := c.CallRaw(ctx, "echo", data, []byte("before"))
					must(t, err)
					if !bytes.HasPrefix(got, []byte("before")) || !bytes.Equal(got[6:], data) {
						t.Fatalf("round %d: %d bytes came back as %d", round, len(data), len(got))
					}
				}
				expectDocuments(t, c, 1)
				if mine := c.Statistics(); mine.SentBytesTotal < 3*largeValue || mine.ReceivedBytesTotal < 3*largeValue {
					t.Errorf("%d bytes were sent and %d received", mine.SentBytesTotal, mine.ReceivedBytesTotal)
				}
				must(t, c.Close())
				expectNothingHeld(t, s)
				if all := s.Statistics(); all.ConnectionsTotal != 1 || all.ViolationsTotal != 0 {
					t.Errorf("%d connections, %d violations", all.ConnectionsTotal, all.ViolationsTotal)
				}
			})
		}
	}
}

func expectDocuments(t *testing.T, c *client.Client, seed byte) {
	t.Helper()
	sent := document{Name: "large", Data: pattern(largeValue/2, seed), Mean: make([]float64, largeValue/16)}
	// More than a frame holds, element by element.
	for range 20 {
		sent.Lines = append(sent.Lines, strings.Repeat("x", 1<<20))
	}
	for i := range sent.Mean {
		sent.Mean[i] = float64(i) / 3
	}
	for _, name := range []string{"document", "borrow"} {
		got, err := client.Call[document](context.Background(), c, name, sent)
		must(t, err)
		if got.Name != sent.Name || !bytes.Equal(got.Data, sent.Data) || len(got.Mean) != len(sent.Mean) || got.Mean[1000] != sent.Mean[1000] ||
			!slices.Equal(got.Lines, sent.Lines) {
			t.Fatalf("%s returned %q, %d bytes, %d numbers and %d lines", name, got.Name, len(got.Data), len(got.Mean), len(got.Lines))
		}
	}
	got, err := client.Func1[document, document](c, "borrow")(context.Background(), sent)
	must(t, err)
	if !slices.Equal(got.Lines, sent.Lines) {
		t.Fatalf("%d lines came back", len(got.Lines))
	}
	listed, err := client.Call[any](context.Background(), c, "any", []any{sent.Lines[0], sent.Data, map[string]any{"mean": sent.Data}, "end"})
	must(t, err)
	if list := listed.([]any); len(list) != 4 || !bytes.Equal(list[1].([]byte), sent.Data) || list[3] != "end" {
		t.Fatalf("%d elements came back", len(list))
	}
	sum, err := client.Call[int64](context.Background(), c, "sum", sent.Data)
	must(t, err)
	if sum != sumOf(sent.Data) {
		t.Fatalf("the sum is %d", sum)
	}
	made, err := client.Call[[]byte](context.Background(), c, "make", largeValue)
	must(t, err)
	if !bytes.Equal(made, pattern(largeValue, 3)) {
		t.Fatalf("make made %d bytes", len(made))
	}
}

// More callers than there are stores wait for each other, and small calls go on beside them.
func TestLargeValuesOfManyCallers(t *testing.T) {
	s, address := serveLarge(t)
	c := newClient(t, address, client.WithValueBytesMax(largeValues))
	var callers sync.WaitGroup
	for number := range 7 {
		callers.Go(func() {
			for round := range 4 {
				data := pattern(5<<20+number, byte(number+round))
				got, err := c.CallRaw(context.Background(), "echo", data, nil)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("caller %d: %d bytes, %v", number, len(got), err)
				}
				if small, err := c.CallRaw(context.Background(), "echo", data[:100], nil); err != nil || !bytes.Equal(small, data[:100]) {
					t.Errorf("caller %d: %d bytes, %v", number, len(small), err)
				}
			}
		})
	}
	callers.Wait()
	must(t, c.Close())
	expectNothingHeld(t, s)
}

// A store that nobody uses is given back while the connection goes on.
func TestIdleStoresGo(t *testing.T) {
	s, address := serveLarge(t)
	c := newClient(t, address, client.WithValueBytesMax(largeValues))
	for range 2 {
		_, err := c.CallRaw(context.Background(), "echo", pattern(largeValue, 1), nil)
		must(t, err)
		expectNothingHeld(t, s)
	}
}

// What is too large is refused with the name of its limit, and the connection goes on.
func TestLimitsOfLargeValues(t *testing.T) {
	s, address := serveLarge(t)
	limits := []struct {
		name, function string
		options        []client.Option
		address        string
		argument       any
		outcome        status.Outcome
		text           string
	}{
		{"a request", "sum", nil, address, make([]byte, largeValues+1), status.OutcomeNotExecuted, "limit value_bytes_max"},
		{"a request over the socket alone", "sum", nil, address + "?shm=off", make([]byte, largeValue), status.OutcomeNotExecuted, "limit frame_bytes_max"},
		{"a result for nobody", "make", nil, address, largeValue, status.OutcomeExecutedResultLost, "limit frame_bytes_max"},
		{"a result", "make", []client.Option{client.WithValueBytesMax(largeValue)}, address, largeValue + 1, status.OutcomeExecutedResultLost, "limit value_bytes_max"},
	}
	for _, limit := range limits {
		t.Run(limit.name, func(t *testing.T) {
			c := newClient(t, limit.address, limit.options...)
			err := c.Call(context.Background(), limit.function, nil, limit.argument)
			failure := expectFailure(t, err, status.ResourceExhausted, limit.outcome)
			if !strings.Contains(failure.Message, limit.text) {
				t.Errorf("the error does not name %q: %s", limit.text, failure.Message)
			}
			_, err = c.CallRaw(context.Background(), "echo", []byte("small"), nil)
			must(t, err)
		})
	}
	expectNothingHeld(t, s)
}

// A server that stops sends all results that it has promised, however many of them are large.
func TestLargeResultsOfAServerThatStops(t *testing.T) {
	const calls = 6
	started, goOn := make(chan struct{}, calls), make(chan struct{})
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)), server.WithValueBytesMax(largeValues))
	must(t, err)
	must(t, s.Register("wait", func(bytes int64) []byte {
		started <- struct{}{}
		<-goOn
		return pattern(int(bytes), 5)
	}, server.Apart()))
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	defer os.RemoveAll(directory)
	address := "unix:" + filepath.Join(directory, "s")
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServe(context.Background(), address) }()
	c := newClient(t, address, client.WithValueBytesMax(largeValues))
	var callers sync.WaitGroup
	for number := range calls {
		callers.Go(func() {
			got, err := client.Call[[]byte](context.Background(), c.With(client.WaitForReady()), "wait", largeValue/3+number)
			if err != nil || !bytes.Equal(got, pattern(largeValue/3+number, 5)) {
				t.Errorf("call %d: %d bytes, %v", number, len(got), err)
			}
		})
	}
	for range calls {
		<-started
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	eventually(t, func() bool { return c.Transport() == "" }, func() string { return "the client was not told" })
	close(goOn)
	callers.Wait()
	must(t, <-stopped)
	<-served
}

// Deadlines end large calls wherever they are, and errors and panics of functions are what they
// are for small ones.
func TestOutcomesOfLargeValues(t *testing.T) {
	s, address := serveLarge(t)
	c := newClient(t, address, client.WithValueBytesMax(largeValues))
	data := pattern(largeValue, 9)
	for range 3 {
		err := c.With(client.Timeout(200*time.Millisecond)).Call(context.Background(), "sleep", nil, data)
		if failure := status.FromError(err); failure.Code != status.DeadlineExceeded {
			t.Fatal(err)
		}
	}
	expectFailure(t, c.Call(context.Background(), "panic", nil, data), status.Internal, status.OutcomeExecuted)
	expectFailure(t, c.Call(context.Background(), "none", nil, data), status.Unimplemented, status.OutcomeNotExecuted)
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	expectFailure(t, c.Call(expired, "sum", nil, data), status.Cancelled, status.OutcomeNotExecuted)
	_, err := c.CallRaw(context.Background(), "echo", data, nil)
	must(t, err)
	must(t, c.Close())
	expectNothingHeld(t, s)
}

// The server copies what another user has written, and makes sure of room for that before the
// caller has written anything.
func TestRoomForCopiesOfRequests(t *testing.T) {
	const most, budget = 16 << 20, 17 << 20
	s, address := serveLarge(t, server.WithValueBytesMax(most), server.WithInputBytes(budget, budget))
	other := newClient(t, address, asOtherUser(t))
	_, err := other.CallRaw(context.Background(), "echo", make([]byte, most), nil)
	expectFailure(t, err, status.ResourceExhausted, status.OutcomeNotExecuted)
	if sent := other.Statistics().SentBytesTotal; sent >= most {
		t.Errorf("%d bytes were sent for a call that is refused", sent)
	}
	for range 3 {
		_, err := other.CallRaw(context.Background(), "sink", make([]byte, 6<<20), nil)
		must(t, err)
		if held := s.Statistics().InputBytes; held > budget {
			t.Errorf("%d bytes are counted", held)
		}
	}
	must(t, other.Close())
	c := newClient(t, address)
	_, err = c.CallRaw(context.Background(), "sink", make([]byte, most), nil)
	must(t, err)
	must(t, c.Close())
	expectNothingHeld(t, s)
}
