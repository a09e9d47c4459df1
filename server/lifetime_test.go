package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// A countedListener counts how often it is closed.
type countedListener struct {
	net.Listener
	closed *atomic.Int64
}

func (l countedListener) Close() error {
	l.closed.Add(1)
	return l.Listener.Close()
}

type requestKey struct{}

// serveCounted serves a listener that counts, and returns its socket and what Serve returns.
func serveCounted(t *testing.T, s *server.Server, closed *atomic.Int64) (path string, served <-chan error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx := context.WithValue(context.Background(), requestKey{}, "of Serve")
	go func() { done <- s.Serve(ctx, countedListener{listener, closed}) }()
	return path, done
}

func TestShutdownAnswersWhatRuns(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait)
	var closed atomic.Int64
	path, served := serveCounted(t, s, &closed)
	c := connect(t, path)
	id := c.begin("wait", 0)
	<-g.started

	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown with a context that has ended: %v", err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
	close(g.release)
	reply := c.next()
	for reply.Type == wire.Drain {
		reply = c.next()
	}
	if got, value, failure := c.decode(reply); got != id || failure != nil {
		t.Errorf("call %d: %v, %v", got, value, failure)
	}
	all.Wait()
	if err := <-served; !errors.Is(err, server.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	if closed.Load() != 1 {
		t.Errorf("the listener was closed %d times", closed.Load())
	}
	expectOver(t, s)
}

// expectOver checks that a server serves nothing any more, and that ending it again does no harm.
func expectOver(t *testing.T, s *server.Server) {
	t.Helper()
	if err := errors.Join(s.Close(), s.Close(), s.Shutdown(context.Background())); err != nil {
		t.Error(err)
	}
	if _, err := s.Listen(context.Background(), "unix:"+filepath.Join(t.TempDir(), "s")); !errors.Is(err, server.ErrServerClosed) {
		t.Errorf("Listen: %v", err)
	}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(context.Background(), listener); !errors.Is(err, server.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// TestCloseEndsContexts: they have the values of the context of Serve, and a cause.
func TestCloseEndsContexts(t *testing.T) {
	s := newServer(t)
	entered, ended := make(chan struct{}), make(chan error, 1)
	register(t, s, "wait", func(ctx context.Context) error {
		if ctx.Value(requestKey{}) != "of Serve" {
			return status.Errorf(status.Internal, "the context has the value %v", ctx.Value(requestKey{}))
		}
		close(entered)
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		<-derived.Done()
		ended <- errors.Join(context.Cause(derived), ctx.Err())
		return nil
	})
	var closed atomic.Int64
	path, served := serveCounted(t, s, &closed)
	c := connect(t, path)
	c.begin("wait", 0)
	<-entered
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, server.ErrServerClosed) || !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended with %v", err)
	}
	if err := <-served; !errors.Is(err, server.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	if closed.Load() != 1 {
		t.Errorf("the listener was closed %d times", closed.Load())
	}
	if _, err := io.Copy(io.Discard, c.conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v", err)
	}
	expectOver(t, s)
}

// A function that waits for the end of the server can be called without one.
func TestDrainingWithoutServer(t *testing.T) {
	poll := func(ctx context.Context) (string, error) {
		call, _ := server.CallFromContext(ctx)
		select {
		case <-call.Draining():
			return "draining", nil
		case <-ctx.Done():
			return "ended", nil
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := poll(ctx); got != "ended" || err != nil {
		t.Errorf("poll returned %q, %v", got, err)
	}
}

// TestFunctionsKnowThatTheServerStops: their contexts go on, and another channel tells, however the
// server stops. A function that heeds it does not hold the end up.
func TestFunctionsKnowThatTheServerStops(t *testing.T) {
	for name, end := range map[string]func(s *server.Server, stop context.CancelFunc, listener net.Listener){
		"the context of Serve": func(_ *server.Server, stop context.CancelFunc, _ net.Listener) { stop() },
		"Shutdown":             func(s *server.Server, _ context.CancelFunc, _ net.Listener) { go s.Shutdown(context.Background()) },
		"a listener fails":     func(_ *server.Server, _ context.CancelFunc, listener net.Listener) { listener.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			waiting := make(chan struct{})
			register(t, s, "poll", func(ctx context.Context) (string, error) {
				call, _ := server.CallFromContext(ctx)
				close(waiting)
				select {
				case <-call.Draining():
					return "draining", ctx.Err()
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			})
			path := filepath.Join(t.TempDir(), "s")
			listener, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			served, closed := make(chan error, 1), new(atomic.Int64)
			go func() { served <- s.Serve(ctx, countedListener{listener, closed}) }()
			c := connect(t, path)
			c.begin("poll", 0)
			<-waiting
			end(s, stop, listener)
			reply := c.next()
			for reply.Type == wire.Drain {
				reply = c.next()
			}
			if _, value, failure := c.decode(reply); value != "draining" || failure != nil {
				t.Errorf("the function returned %v, %v", value, failure)
			}
			c.conn.Close()
			if err := <-served; name == "a listener fails" && !errors.Is(err, net.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
			if closed.Load() != 1 {
				t.Errorf("the listener was closed %d times", closed.Load())
			}
		})
	}
}

// TestLivesEndOnce: Serve, Shutdown and Close meet in any order, and each listener is closed once.
func TestLivesEndOnce(t *testing.T) {
	const rounds, each = 50, 3
	for range rounds {
		s := newServer(t)
		register(t, s, "one", func() int64 { return 1 })
		begin := make(chan struct{})
		var all sync.WaitGroup
		var closed [each]atomic.Int64
		for i := range each {
			listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
			if err != nil {
				t.Fatal(err)
			}
			together(&all, begin,
				func() {
					if err := s.Serve(context.Background(), countedListener{listener, &closed[i]}); !errors.Is(err, server.ErrServerClosed) {
						t.Errorf("Serve: %v", err)
					}
				},
				func() {
					if err := s.Shutdown(context.Background()); err != nil {
						t.Errorf("Shutdown: %v", err)
					}
				},
				func() {
					if err := s.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
		}
		close(begin)
		all.Wait()
		for i := range closed {
			if closed[i].Load() != 1 {
				t.Errorf("listener %d was closed %d times", i, closed[i].Load())
			}
		}
		expectOver(t, s)
	}
}

// together runs functions in goroutines that begin at the same time.
func together(all *sync.WaitGroup, begin <-chan struct{}, functions ...func()) {
	for _, run := range functions {
		all.Go(func() {
			<-begin
			run()
		})
	}
}
