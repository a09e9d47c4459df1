package bus_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
	"github.com/nearcall/nearcall/internal/transport/transporttest"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// startEngine starts a NATS server in this process, at a port or at any.
func startEngine(t testing.TB, port int) *engine.Server {
	t.Helper()
	return startEngineWith(t, engine.Options{Port: port})
}

func startEngineWith(t testing.TB, options engine.Options) *engine.Server {
	t.Helper()
	options.Host, options.NoLog, options.NoSigs = "127.0.0.1", true, true
	made, err := engine.NewServer(&options)
	must(t, err)
	made.Start()
	t.Cleanup(func() {
		made.Shutdown()
		made.WaitForShutdown()
	})
	if !made.ReadyForConnections(patience) {
		t.Fatal("the engine does not get ready")
	}
	return made
}

// attach makes a hub with a connection of its own.
func attach(t testing.TB, url string) (*bus.Hub, *nats.Conn) {
	t.Helper()
	connection, err := nats.Connect(url, bus.Options()...)
	must(t, err)
	t.Cleanup(connection.Close)
	hub, err := bus.Attach(connection, bus.Config{})
	must(t, err)
	t.Cleanup(hub.Close)
	must(t, connection.FlushTimeout(patience))
	return hub, connection
}

func TestContractOverNATS(t *testing.T) {
	url := startEngine(t, engine.RANDOM_PORT).ClientURL()
	from, _ := attach(t, url)
	to, _ := attach(t, url)
	transporttest.Run(t, pair{from, to}, anyPort)
}

// A bus that keeps messages to send them later is refused.
func TestAttachChecksTheConnection(t *testing.T) {
	connection, err := nats.Connect(startEngine(t, engine.RANDOM_PORT).ClientURL())
	must(t, err)
	t.Cleanup(connection.Close)
	if _, err := bus.Attach(connection, bus.Config{}); err == nil || !strings.Contains(err.Error(), "later") {
		t.Error(err)
	}
}

// A hub that does not get on with what it receives lets the rest be dropped, before it fills the
// memory.
func TestWhatWaitsIsBoundedOnNATS(t *testing.T) {
	url := startEngine(t, engine.RANDOM_PORT).ClientURL()
	dropped := make(chan error, 1)
	connection, err := nats.Connect(url, append(bus.Options(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case dropped <- err:
		default:
		}
	}))...)
	must(t, err)
	t.Cleanup(connection.Close)
	goOn := make(chan struct{})
	const window = 64 << 10
	hub, err := bus.Attach(connection, bus.Config{WindowBytes: window, Now: func() uint64 {
		<-goOn
		return 1
	}})
	must(t, err)
	t.Cleanup(hub.Close)
	t.Cleanup(func() { close(goOn) })
	must(t, connection.FlushTimeout(patience))

	_, hostile := attach(t, url)
	stranger := strings.TrimSuffix(hub.Subject(), ">") + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	data := append([]byte{1, 3}, make([]byte, 512<<10)...) // version 1, DATA
	for range 2 * 256 * window / len(data) {
		must(t, hostile.PublishRequest(stranger, stranger+".0", data))
		must(t, hostile.FlushTimeout(patience))
	}
	select {
	case err := <-dropped:
		if !errors.Is(err, nats.ErrSlowConsumer) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Errorf("%d bytes wait, and none is dropped", 2*256*window)
	}
}

// A hub that was closed is not there any more, although its connection to the engine is.
func TestAClosedHubIsNotThereOnNATS(t *testing.T) {
	url := startEngine(t, engine.RANDOM_PORT).ClientURL()
	from, _ := attach(t, url)
	to, connection := attach(t, url)
	if subscriptions := connection.NumSubscriptions(); subscriptions != 1 {
		t.Errorf("%d subscriptions", subscriptions)
	}
	to.Close()
	if subscriptions := connection.NumSubscriptions(); subscriptions != 0 {
		t.Errorf("%d subscriptions are left", subscriptions)
	}
	must(t, connection.FlushTimeout(patience))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := from.Dial(ctx, to.Instance(), "any"); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("a hub that was closed: %v", err)
	}
}

// serveDemo serves the demonstration functions at a hub, and hold, which says that it has started
// and lasts until its context ends.
func serveDemo(t testing.TB, hub *bus.Hub) (started <-chan struct{}) {
	t.Helper()
	holds := make(chan struct{}, 16)
	s, err := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	demo.Register(s)
	s.Register("hold", func(ctx context.Context) error {
		holds <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	listener, err := hub.Listen("demo")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return holds
}

// callBy returns a client whose connections lead from one hub to another.
func callBy(t testing.TB, from, to *bus.Hub, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New("tcp:bus:1", append(options, client.WithDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return from.Dial(ctx, to.Instance(), "demo")
	}))...)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// Calls travel as they do over other carriers: large and small ones, many at a time, with
// deadlines, cancellation and errors.
func TestCallsOverNATS(t *testing.T) {
	url := startEngine(t, engine.RANDOM_PORT).ClientURL()
	from, _ := attach(t, url)
	to, _ := attach(t, url)
	serveDemo(t, to)
	c := callBy(t, from, to)
	ctx := context.Background()
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for _, size := range []int{0, 1, 100, 4 << 10, 20 << 10, 300 << 10, 3 << 20} {
				data := bytes.Repeat([]byte{byte(caller)}, size)
				if got, err := c.CallRaw(ctx, "echo", data, nil); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes came back as %d: %v", size, len(got), err)
				}
			}
		})
	}
	callers.Wait()
	if _, err := client.Call[int64](ctx, c, "divmod", 1, 0); !errors.Is(err, status.InvalidArgument) {
		t.Errorf("an error of the function: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := c.Call(short, "sleep", nil, 60_000); !errors.Is(err, status.DeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
}

// A hub that vanishes with a call ends the connection within a second. The outcome of the call is
// unknown, because nobody is left whom its caller could ask. Later calls were not executed.
func TestHubVanishesOnNATS(t *testing.T) {
	url := startEngine(t, engine.RANDOM_PORT).ClientURL()
	from, _ := attach(t, url)
	to, connection := attach(t, url)
	started := serveDemo(t, to)
	c := callBy(t, from, to, client.WithAttempts(1))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.With(client.Timeout(2*time.Second)).Call(context.Background(), "hold", nil) }()
	<-started
	connection.Close()
	began := time.Now()
	for from.Streams() > 0 && time.Since(began) < patience {
		time.Sleep(time.Millisecond)
	}
	t.Logf("the connection ended after %v", time.Since(began))
	if from.Streams() > 0 {
		t.Error("the connection does not end")
	}
	var failure *status.Error
	if err := <-ended; !errors.As(err, &failure) || failure.Outcome != status.OutcomeUnknown {
		t.Errorf("the call in flight: %v", err)
	}
	if err := c.Call(ctx, "one", nil); !errors.As(err, &failure) || failure.Code != status.Unavailable || failure.Outcome != status.OutcomeNotExecuted {
		t.Errorf("a later call: %v", err)
	}
}

// A request that meets nobody was not executed, although the carrier had taken it.
func TestRequestMeetsNobodyOnNATS(t *testing.T) {
	broker := startEngine(t, engine.RANDOM_PORT)
	from, _ := attach(t, broker.ClientURL())
	to, connection := attach(t, broker.ClientURL())
	serveDemo(t, to)
	c := callBy(t, from, to, client.WithAttempts(1))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, c.Call(ctx, "one", nil))
	connection.Close()
	for until := time.Now().Add(patience); broker.NumClients() > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the engine does not notice that a client is gone")
		}
	}
	var failure *status.Error
	if err := c.Call(ctx, "one", nil); !errors.As(err, &failure) || failure.Code != status.Unavailable || failure.Outcome != status.OutcomeNotExecuted {
		t.Errorf("%v, want not executed", err)
	}
}

// When the engine ends, connections end at once, and new ones cannot be made. When it is there
// again, calls succeed without anybody doing anything, and a caller whose call was in flight is told
// what became of it.
func TestEngineRestarts(t *testing.T) {
	first := startEngine(t, engine.RANDOM_PORT)
	url, port := first.ClientURL(), first.Addr().(*net.TCPAddr).Port
	from, _ := attach(t, url)
	to, _ := attach(t, url)
	started := serveDemo(t, to)
	c, other := callBy(t, from, to), callBy(t, from, to)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Call(ctx, "hold", nil) }()
	<-started
	first.Shutdown()
	first.WaitForShutdown()
	if err := other.Call(ctx, "one", nil); !errors.Is(err, status.Unavailable) || status.FromError(err).Outcome != status.OutcomeNotExecuted {
		t.Errorf("without an engine: %v", err)
	}
	startEngine(t, port)
	var failure *status.Error
	if err := <-ended; !errors.As(err, &failure) || failure.Outcome != status.OutcomeExecutedResultLost || !strings.Contains(failure.Message, "engine") {
		t.Errorf("the call in flight: %v", err)
	}
	must(t, other.With(client.WaitForReady()).Call(ctx, "one", nil))
}

// A hub follows the engine if that takes smaller messages after it was restarted.
func TestEngineTakesLessThanBefore(t *testing.T) {
	first := startEngine(t, engine.RANDOM_PORT)
	url, port := first.ClientURL(), first.Addr().(*net.TCPAddr).Port
	from, _ := attach(t, url)
	to, _ := attach(t, url)
	serveDemo(t, to)
	c := callBy(t, from, to)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, c.Call(ctx, "one", nil))
	first.Shutdown()
	first.WaitForShutdown()
	startEngineWith(t, engine.Options{Port: port, MaxPayload: 16 << 10})
	data := bytes.Repeat([]byte("x"), 300<<10)
	if got, err := c.With(client.WaitForReady()).CallRaw(ctx, "echo", data, nil); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back as %d: %v", len(data), len(got), err)
	}
}

func BenchmarkCallOverNATS(b *testing.B) {
	url := startEngine(b, engine.RANDOM_PORT).ClientURL()
	from, _ := attach(b, url)
	to, _ := attach(b, url)
	serveDemo(b, to)
	c := callBy(b, from, to)
	one := client.Func0[int64](c, "one")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := one(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRequestReply is what NATS itself takes for a question and its answer.
func BenchmarkRequestReply(b *testing.B) {
	url := startEngine(b, engine.RANDOM_PORT).ClientURL()
	_, from := attach(b, url)
	_, to := attach(b, url)
	_, err := to.Subscribe("question", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	must(b, err)
	must(b, to.FlushTimeout(patience))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := from.Request("question", []byte("12345678"), patience); err != nil {
			b.Fatal(err)
		}
	}
}
