package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	engine "github.com/nats-io/nats-server/v2/server"

	"github.com/nearcall/nearcall/client"
	gateway "github.com/nearcall/nearcall/gateway/nats"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// patience bounds every wait.
const patience = 20 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits until something is so.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// startEngine starts a NATS server in this process.
func startEngine(t testing.TB, options engine.Options) *engine.Server {
	t.Helper()
	options.Host, options.NoLog, options.NoSigs = "127.0.0.1", true, true
	if options.Port == 0 {
		options.Port = engine.RANDOM_PORT
	}
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

// A backend is a server of functions on some machine.
type backend struct {
	*server.Server
	address string
	name    string
	served  chan error

	mu    sync.Mutex
	calls int
	holds chan struct{} // gets one for each call of hold that has begun
	// holding counts those whose context has not ended.
	holding atomic.Int64
	release chan struct{} // lets them return
}

// count returns how many calls of who were served.
func (b *backend) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// startBackend serves the demonstration functions, and three more: who returns the server's name,
// hold lasts until its context ends or it is released, and wait waits.
func startBackend(t testing.TB, name, address string, options ...server.Option) *backend {
	t.Helper()
	if address == "" {
		address = "unix:" + filepath.Join(t.TempDir(), "s")
	}
	b := &backend{address: address, name: name, served: make(chan error, 1), holds: make(chan struct{}, 64), release: make(chan struct{})}
	var err error
	b.Server, err = server.New(append([]server.Option{server.WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	must(t, err)
	demo.Register(b.Server)
	demo.RegisterMetadata(b.Server)
	b.Register("who", func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls++
		return name
	})
	b.Register("hold", func(ctx context.Context) error {
		b.holding.Add(1)
		defer b.holding.Add(-1)
		select {
		case b.holds <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.release:
			return nil
		}
	})
	listener, err := b.Listen(context.Background(), address)
	must(t, err)
	go func() { b.served <- b.Serve(context.Background(), listener) }()
	t.Cleanup(b.stop)
	return b
}

func (b *backend) stop() {
	b.Close()
	err := <-b.served
	b.served <- err
}

// A running is a gateway that runs.
type running struct {
	*gateway.Gateway
	listen string
	cancel context.CancelFunc
	ended  chan error
}

// stop stops it, and waits until that is done.
func (r *running) stop() error {
	r.cancel()
	err := <-r.ended
	r.ended <- err
	return err
}

// startGateway runs a gateway, and gives it an address to listen at if that is "here".
func startGateway(t testing.TB, config gateway.Config) *running {
	t.Helper()
	if config.Listen == here {
		config.Listen = "unix:" + filepath.Join(t.TempDir(), "g")
	}
	if config.Logger == nil {
		config.Logger = logger(t, config.Name)
	}
	made, err := gateway.New(config)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Gateway: made, listen: config.Listen, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- made.Run(ctx) }()
	t.Cleanup(func() { must(t, r.stop()) })
	return r
}

const here = "here"

// logger writes to the test's log until the test ends.
func logger(t testing.TB, name string) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t = nil
	})
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo})).With("gateway", name)
}

type testWriter struct {
	mu sync.Mutex
	t  testing.TB
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Logf("%s", b)
	}
	return len(b), nil
}

// callAt returns a client of an address.
func callAt(t testing.TB, address string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(address, options...)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// awaitFunction waits until a function is served at an address by as many servers as wanted.
func awaitFunction(t testing.TB, r *running, function string, servers int) {
	t.Helper()
	await(t, fmt.Sprintf("function %s at %d servers", function, servers), func() bool {
		for _, f := range r.Status().Functions {
			if f.Name == function && len(f.Places) == servers {
				return true
			}
		}
		return false
	})
}

func outcomeOf(err error) (status.Code, status.Outcome) {
	failure := status.FromError(err)
	if failure == nil {
		return status.OK, status.OutcomeNone
	}
	return failure.Code, failure.Outcome
}

// freePort returns a port that nobody listens at.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func urls(e *engine.Server) gateway.Engine { return gateway.Engine{URLs: []string{e.ClientURL()}} }

// A pair is two gateways at one engine: calls at address go to the server.
type pair struct {
	engine   *engine.Server
	server   *backend
	exporter *running
	importer *running
}

// startPair starts a server at one gateway, and another gateway whose callers call it.
func startPair(t testing.TB, importer gateway.Config, export gateway.Export) pair {
	t.Helper()
	p := pair{engine: startEngine(t, engine.Options{}), server: startBackend(t, "b", "")}
	export.Name, export.Address = "demo", p.server.address
	p.exporter = startGateway(t, gateway.Config{Name: "b", Host: "b", Engine: urls(p.engine), Exports: []gateway.Export{export}})
	importer.Name, importer.Host, importer.Engine, importer.Listen = "a", "a", urls(p.engine), here
	p.importer = startGateway(t, importer)
	awaitFunction(t, p.importer, "who", 1)
	return p
}
