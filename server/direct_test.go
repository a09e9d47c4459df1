package server_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/direct"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

func newDirect(t *testing.T) direct.Functions {
	s := newServer(t)
	s.Register("echo", func(data []byte) []byte { return data })
	s.Register("slow", func(data []byte) []byte {
		time.Sleep(2 * time.Millisecond)
		return data
	})
	s.Register("limited", func(data []byte) []byte { return data }, server.MaxConcurrency(1))
	s.Register("panic", func([]byte) []byte { panic("no") })
	s.Register("deadline", func(ctx context.Context, data []byte) ([]byte, error) {
		if deadline, bounded := ctx.Deadline(); !bounded || time.Until(deadline) <= 0 || time.Until(deadline) > testTimeout {
			return nil, status.Errorf(status.FailedPrecondition, "no deadline")
		}
		call, _ := server.CallFromContext(ctx)
		return []byte(call.Function), nil
	})
	return directOf(t, s)
}

// A taker is the listener of a library.
type taker struct {
	net.Listener
	taken chan direct.Functions
	err   error
}

func (l taker) Take(functions direct.Functions) error {
	l.taken <- functions
	return l.err
}

// newTaker returns a listener that fails when it takes the functions, unless err is nil.
func newTaker(t testing.TB, err error) taker {
	t.Helper()
	listener, failure := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if failure != nil {
		t.Fatal(failure)
	}
	return taker{listener, make(chan direct.Functions, 1), err}
}

// directOf serves as a library does until the test ends, and returns the functions.
func directOf(t testing.TB, s *server.Server) direct.Functions {
	t.Helper()
	listener := newTaker(t, nil)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.wait(t)
}

// wait waits until the server has handed over its functions.
func (l taker) wait(t testing.TB) direct.Functions {
	t.Helper()
	select {
	case functions := <-l.taken:
		return functions
	case <-time.After(testTimeout):
		t.Fatal("the listener is not given the functions")
		return nil
	}
}

// What a library cannot serve is told by Serve, which closes the listener.
func TestLibrariesThatCannotServe(t *testing.T) {
	why := errors.New("no place")
	listener := newTaker(t, why)
	ctx, stop := context.WithTimeout(context.Background(), testTimeout)
	defer stop()
	if err := newServer(t).Serve(ctx, listener); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	wrong, late := newServer(t), newTaker(t, nil)
	wrong.Register("channel", func(chan int) {})
	if err := wrong.Serve(ctx, late); err == nil || len(late.taken) > 0 {
		t.Errorf("a function that cannot be registered: %v", err)
	}
	for _, closed := range []net.Listener{listener, late} {
		if _, err := closed.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener is open: %v", err)
		}
	}
}

// Calls within the process are observed as others are.
func TestObserverOfDirectCalls(t *testing.T) {
	n := new(notebook)
	s := newServer(t, server.WithObserver(n.observer()))
	register(t, s, "echo", func(data []byte) []byte { return data })
	runDirect(t, directOf(t, s), "echo", "hello", 0)
	n.expect(t, "opened 1 in process", "began echo OK", "started echo OK", "ended echo OK none")
	if call := n.last(); call.RequestBytes != 5 || call.ReplyBytes != 5 || !call.Connection.Peer.Local {
		t.Errorf("observed %+v", call)
	}
}

func runDirect(t *testing.T, d direct.Functions, name, payload string, timeout time.Duration) (reply string, code status.Code) {
	t.Helper()
	var deadlineNs uint64
	if timeout > 0 {
		clock := monotonic.New()
		deadlineNs = clock.Ns() + uint64(timeout)
	}
	run := d.Run(d.Find(name), uint8(wire.CodecRaw), []byte(payload), nil, deadlineNs)
	if run == nil {
		t.Fatalf("%s was not run directly", name)
	}
	defer run.Release()
	bytes, number := run.Payload, run.Code
	return string(bytes), status.Code(number)
}

func TestDirect(t *testing.T) {
	d := newDirect(t)
	if reply, code := runDirect(t, d, "echo", "hello", 0); reply != "hello" || code != status.OK {
		t.Errorf("got %q, %v", reply, code)
	}
	if reply, code := runDirect(t, d, "deadline", "", testTimeout); reply != "deadline" || code != status.OK {
		t.Errorf("got %q, %v", reply, code)
	}
	if _, code := runDirect(t, d, "deadline", "", 0); code != status.FailedPrecondition {
		t.Errorf("without a timeout: %v", code)
	}
	if _, code := runDirect(t, d, "panic", "", 0); code != status.Internal {
		t.Errorf("a panic: %v", code)
	}
	if d.Find("none") != 0 {
		t.Error("a function that is not there was found")
	}
}

// What a caller may have to leave is not run in its goroutine.
func TestDirectLeavesToOthers(t *testing.T) {
	d := newDirect(t)
	if d.Run(d.Find("limited"), uint8(wire.CodecRaw), nil, nil, 0) != nil {
		t.Error("a function with limited concurrency was run directly")
	}
	runDirect(t, d, "slow", "", 0)
	if d.Run(d.Find("slow"), uint8(wire.CodecRaw), nil, nil, 0) != nil {
		t.Error("a function that was slow was run directly again")
	}
	d.Overran(d.Find("echo"))
	if d.Run(d.Find("echo"), uint8(wire.CodecRaw), nil, nil, 0) != nil {
		t.Error("a function that overran was run directly again")
	}
}

func TestNothingIsRegisteredAfterDirect(t *testing.T) {
	s, listener := newServer(t), newTaker(t, nil)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	listener.wait(t)
	if err := s.Register("late", func() int64 { return 1 }); !errors.Is(err, server.ErrServing) {
		t.Errorf("a function was registered after the table was made: %v", err)
	}
	stop()
	if err := <-served; err != nil && !errors.Is(err, server.ErrServing) {
		t.Error(err)
	}
}
