package server_test

import (
	"context"
	"errors"
	"net"
	"os"
	"reflect"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// serve is start for tests that stop the server themselves.
func serve(t testing.TB, s *server.Server, wrap func(net.Listener) net.Listener) (path string, stop func() error) {
	t.Helper()
	path = t.TempDir() + "/s"
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		listener = wrap(listener)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(cancel)
	return path, func() error {
		cancel()
		select {
		case err := <-served:
			return err
		case <-time.After(testTimeout):
			return errors.New("Serve does not return")
		}
	}
}

func ping(payload string) []byte {
	frame := wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte(payload)}
	return frame.Append(nil)
}

// TestFramesThatStraddleReads: a connection on which every read ends within a
// frame is busy, not slow.
func TestFramesThatStraddleReads(t *testing.T) {
	const timeout = 2 * time.Second
	c := connect(t, start(t, newServer(t, server.WithFrameTimeout(timeout))))
	frame := ping("payload")
	half := len(frame) / 2
	c.send(frame[:half])
	for started := time.Now(); time.Since(started) < 2*timeout; time.Sleep(timeout / 20) {
		c.send(append(frame[half:len(frame):len(frame)], frame[:half]...))
		if got := c.next(); got.Type != wire.Pong {
			_, _, failure := c.decode(got)
			t.Fatalf("%v: %v", got.Type, failure)
		}
	}
}

// TestCallsInFlightAreCountedExactly: a caller that has read an answer may use
// its place at once.
func TestCallsInFlightAreCountedExactly(t *testing.T) {
	s := newServer(t, server.WithCallsInFlight(1, 1))
	register(t, s, "apart", func() int64 { return 1 }, server.MaxConcurrency(10))
	register(t, s, "slow", func() int64 { time.Sleep(3 * time.Millisecond); return 1 })
	c := connect(t, start(t, s))
	for range 3000 {
		if _, failure := c.call("apart"); failure != nil {
			t.Fatal(failure)
		}
	}
	for range 20 {
		if _, failure := c.call("slow"); failure != nil {
			t.Fatal(failure)
		}
	}
}

// TestTakenOverCallsCountForTheirUser: what the watch took from the reader is
// a call like any other.
func TestTakenOverCallsCountForTheirUser(t *testing.T) {
	s, g := newServer(t, server.WithCallsInFlight(10, 1)), newGate()
	register(t, s, "wait", g.wait)
	register(t, s, "apart", func() int64 { return 1 }, server.MaxConcurrency(1))
	path := start(t, s)
	slow, other := connect(t, path), connect(t, path)
	slow.begin("wait", 0)
	<-g.started
	var refusal *status.Error
	waitFor(t, "the call to be counted", func() bool {
		_, refusal = other.call("apart")
		return refusal != nil && refusal.Code == status.ResourceExhausted
	})
	if want := []status.Detail{{Type: "nearcall.limit", Value: "calls_in_flight_per_user_max"}}; !reflect.DeepEqual(refusal.Details, want) {
		t.Errorf("details %v, want %v", refusal.Details, want)
	}
	close(g.release)
	slow.result()
	if _, failure := other.call("apart"); failure != nil {
		t.Errorf("the place was not given back: %v", failure)
	}
}

// beginMany begins many calls in one write.
func (c *caller) beginMany(count int, name string, arguments ...any) {
	c.t.Helper()
	payload := argumentsOf(c.t, arguments...)
	var all []byte
	for range count {
		c.lastID++
		frame := wire.Frame{
			Header:     wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: c.lastID},
			Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name),
			Payload:    payload,
		}
		all = frame.Append(all)
	}
	c.send(all)
}

func argumentsOf(t testing.TB, values ...any) []byte {
	if values == nil {
		values = []any{}
	}
	return arguments(t, values...)
}

// settled waits until a counter has stood still for a while.
func settled(t testing.TB, counter *atomic.Int64) int64 {
	t.Helper()
	last, since := counter.Load(), time.Now()
	waitFor(t, "the counter to stand still", func() bool {
		if now := counter.Load(); now != last {
			last, since = now, time.Now()
		}
		return last > 0 && time.Since(since) > 200*time.Millisecond
	})
	return last
}

// TestPeerThatDoesNotReadStopsItsCalls: a peer can make the server hold its
// replies only up to limit pending_output_bytes_max. A machine that is busy may let a
// function look slow; it runs apart then, and those that wait count as calls in flight.
func TestPeerThatDoesNotReadStopsItsCalls(t *testing.T) {
	const calls, apartMax = 600, 20
	// The socket takes some 200 KiB.
	const replyBytes, runsMax = 15_000, 60
	s := newServer(t, server.WithPendingOutputBytesMax(1), server.WithCallsInFlight(apartMax, apartMax))
	var runs atomic.Int64
	// Made once: the function is quick enough to be run by the reader.
	reply := make([]byte, replyBytes)
	register(t, s, "fill", func() []byte {
		runs.Add(1)
		return reply
	})
	register(t, s, "one", func() int64 { return 1 })
	c := connect(t, start(t, s))
	// A busy connection reads many requests at once.
	c.beginMany(100, "one")
	for range 100 {
		c.result()
	}
	c.beginMany(calls, "fill")
	if ran := settled(t, &runs); ran > runsMax {
		t.Errorf("%d functions ran for a peer that does not read, want at most %d", ran, runsMax)
	}
	replies := int64(0)
	for range calls {
		_, _, failure := c.result()
		if failure == nil {
			replies++
			continue
		}
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	}
	if runs.Load() != replies {
		t.Errorf("%d runs, %d replies", runs.Load(), replies)
	}
}

// TestPeerThatDoesNotReadHoldsUpNoDrain: the others are told at once.
func TestPeerThatDoesNotReadHoldsUpNoDrain(t *testing.T) {
	s := newServer(t, server.WithWriteTimeout(time.Minute), server.WithDrainTimeout(100*time.Millisecond))
	register(t, s, "fill", func() []byte { return make([]byte, 2<<20) }, server.MaxConcurrency(10))
	path, stop := serve(t, s, nil)
	for range 5 {
		connect(t, path).beginMany(4, "fill")
	}
	waitFor(t, "the replies to be made", func() bool { return s.Statistics().Functions["fill"].Calls >= 10 })
	others := []*caller{connect(t, path), connect(t, path), connect(t, path)}
	if err := stop(); !errors.Is(err, server.ErrDrainTimeout) {
		t.Errorf("Serve: %v, want ErrDrainTimeout", err)
	}
	for _, other := range others {
		if frame := other.next(); frame.Type != wire.Drain {
			t.Errorf("%v, want DRAIN", frame.Type)
		}
		other.wantEnd()
	}
}

// TestDrainLosesNothing: whatever ends last, every call that DRAIN covers is
// answered before the end.
func TestDrainLosesNothing(t *testing.T) {
	for round := range 100 {
		s := newServer(t)
		register(t, s, "apart", func() int64 { return 1 }, server.MaxConcurrency(100))
		path, stop := serve(t, s, nil)
		c := connect(t, path)
		c.beginMany(round%7+1, "apart")
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		answered, drained := 0, -1
		for drained < 0 || answered < drained {
			switch frame := c.next(); frame.Type {
			case wire.Drain:
				drained = int(frame.CallID)
			case wire.Reply:
				answered++
			}
		}
		c.wantEnd()
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
	}
}

// TestDrainTimeoutEndsContexts: also of the function that the reader runs.
func TestDrainTimeoutEndsContexts(t *testing.T) {
	s, g := newServer(t, server.WithDrainTimeout(0)), newGate()
	register(t, s, "wait", g.waitOrEnd)
	path, stop := serve(t, s, nil)
	connect(t, path).begin("wait", 0)
	simple := dial(t, path)
	simple.send(simpleRequest(`{"f":"wait"}`))
	<-g.started
	<-g.started
	if err := stop(); !errors.Is(err, server.ErrDrainTimeout) {
		t.Errorf("Serve: %v, want ErrDrainTimeout", err)
	}
	waitFor(t, "both contexts to end", func() bool { return g.ended.Load() == 2 })
	waitFor(t, "both connections to be given back", func() bool { return s.Statistics().Connections == 0 })
}

// A failingListener fails some accepts as a process without descriptors does.
type failingListener struct {
	net.Listener
	failures atomic.Int64
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestAcceptOutlivesExhaustion(t *testing.T) {
	s := newServer(t)
	register(t, s, "one", func() int64 { return 1 })
	path, stop := serve(t, s, func(l net.Listener) net.Listener {
		failing := &failingListener{Listener: l}
		failing.failures.Store(5)
		return failing
	})
	if value, failure := connect(t, path).call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestTakenOverReadersEnd: a goroutine whose reading was taken over ends with
// its call, not with its connection.
func TestTakenOverReadersEnd(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait)
	c := connect(t, start(t, s))
	before := runtime.NumGoroutine()
	c.begin("wait", 0)
	<-g.started
	c.send(ping("answered by another reader"))
	if frame := c.next(); frame.Type != wire.Pong {
		t.Fatalf("%v, want PONG", frame.Type)
	}
	close(g.release)
	c.result()
	waitFor(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
}
