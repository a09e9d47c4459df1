package server_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// A notebook is an observer that writes down what it is told.
type notebook struct {
	mu     sync.Mutex
	events []string
	calls  []observe.Call // as they were when they ended
}

func (n *notebook) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, fmt.Sprintf(format, args...))
}

// expect waits for events, which must be these in this order. Some come after the answer
// that the caller has got.
func (n *notebook) expect(t *testing.T, want ...string) {
	t.Helper()
	wanted := strings.Join(want, "; ")
	text := func() string {
		n.mu.Lock()
		defer n.mu.Unlock()
		return strings.Join(n.events, "; ")
	}
	waitFor(t, "the observer to be told: "+wanted, func() bool { return strings.Count(text(), ";") >= len(want)-1 && text() != "" })
	if got := text(); got != wanted {
		t.Errorf("observed %s; want %s", got, wanted)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = nil
}

func (n *notebook) last() observe.Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[len(n.calls)-1]
}

func (n *notebook) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.calls)
}

func (n *notebook) observer() *observe.Observer {
	event := func(name string) func(context.Context, *observe.Call) {
		return func(_ context.Context, call *observe.Call) { n.note("%s %s %v", name, call.Function, call.Code()) }
	}
	return &observe.Observer{
		ConnectionOpened:  func(c *observe.Connection) { n.note("opened %d %s", c.ID, c.Transport) },
		ConnectionMoved:   func(c *observe.Connection) { n.note("moved %d %s", c.ID, c.Transport) },
		ConnectionRefused: func(_ *observe.Connection, why error) { n.note("refused %v", status.FromError(why).Code) },
		ConnectionEnded:   func(c *observe.Connection, why error) { n.note("ended %d %v", c.ID, why) },
		CallBegan:         event("began"), CallQueued: event("queued"), CallStarted: event("started"),
		CallEnded: func(_ context.Context, call *observe.Call) {
			n.mu.Lock()
			n.calls = append(n.calls, *call)
			n.mu.Unlock()
			n.note("ended %s %v %v", call.Function, call.Code(), call.Outcome())
		},
	}
}

// What an observer is told of calls that run in the reader, apart, or not at all.
func TestObserver(t *testing.T) {
	n := new(notebook)
	s := newServer(t, server.WithObserver(n.observer()))
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "apart", func() error { return status.Errorf(status.NotFound, "nothing") }, server.Apart())
	register(t, s, "goexit", func() { runtime.Goexit() })
	register(t, s, "slow", func() { time.Sleep(5 * time.Millisecond) }) // so that another goroutine reads on
	register(t, s, "late", func(ctx context.Context) { <-ctx.Done(); time.Sleep(2 * wire.CancelGraceMs * time.Millisecond) }, server.MaxRunTime(time.Millisecond))
	c := connect(t, start(t, s))
	n.expect(t, "opened 1 unix socket")
	c.call("echo", []byte("hello"))
	n.expect(t, "began echo OK", "started echo OK", "ended echo OK none")
	if call := n.last(); call.RequestBytes == 0 || call.ReplyBytes != len("hello")+2 || call.Took <= 0 || !call.Connection.Peer.Local || call.Connection.Peer.Software == "" {
		t.Errorf("echo: %+v over %+v", call, call.Connection)
	}
	c.call("apart")
	n.expect(t, "began apart OK", "started apart OK", "ended apart NOT_FOUND executed")
	c.call("goexit")
	n.expect(t, "began goexit OK", "started goexit OK", "ended goexit INTERNAL executed")
	c.call("slow")
	n.expect(t, "began slow OK", "started slow OK", "ended slow OK none")
	c.call("late")
	n.expect(t, "began late OK", "started late OK", "ended late DEADLINE_EXCEEDED unknown")
	c.call("made_up")
	n.expect(t, "began  OK", "ended  UNIMPLEMENTED not executed")
	c.call("echo")
	n.expect(t, "began echo OK", "started echo OK", "ended echo INVALID_ARGUMENT not executed")
	c.conn.Close()
	n.expect(t, "ended 1 <nil>")
}

// A call that waits for its turn is queued, and one that gives up then never starts.
func TestObserverOfQueuedCalls(t *testing.T) {
	n, g := new(notebook), newGate()
	s := newServer(t, server.WithObserver(n.observer()))
	register(t, s, "one_by_one", func() { g.started <- struct{}{}; <-g.release }, server.MaxConcurrency(1))
	c := connect(t, start(t, s))
	n.expect(t, "opened 1 unix socket")
	c.begin("one_by_one", 0)
	<-g.started
	n.expect(t, "began one_by_one OK", "started one_by_one OK")
	second := c.begin("one_by_one", 0)
	n.expect(t, "began one_by_one OK", "queued one_by_one OK")
	c.cancel(second)
	n.expect(t, "ended one_by_one CANCELLED not executed")
	close(g.release)
	n.expect(t, "ended one_by_one OK none")
}

// Peers that are not served, and why connections end.
func TestObserverOfConnections(t *testing.T) {
	n := new(notebook)
	path := start(t, newServer(t, server.WithObserver(n.observer()), server.WithConnections(8, 1)))
	c := connect(t, path)
	n.expect(t, "opened 1 unix socket")
	dial(t, path)
	n.expect(t, "refused RESOURCE_EXHAUSTED")
	c.send([]byte("this is no frame, and breaks the protocol"))
	waitFor(t, "the end", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return len(n.events) > 0 })
	n.mu.Lock()
	if got := n.events[0]; !strings.HasPrefix(got, "ended 1 ") || strings.HasSuffix(got, "<nil>") {
		t.Errorf("a breach of the protocol: %s", got)
	}
	n.events = nil
	n.mu.Unlock()
	other := dial(t, path)
	other.send([]byte("GET / HTTP/1.1\r\n\r\n"))
	n.expect(t, "refused INVALID_ARGUMENT")
}

// A busy connection is told to have moved to shared memory, once.
func TestObserverOfMemory(t *testing.T) {
	n := new(notebook)
	s := newServer(t, server.WithObserver(&observe.Observer{ConnectionMoved: n.observer().ConnectionMoved, CallEnded: n.observer().CallEnded}))
	register(t, s, "echo", func(data []byte) []byte { return data })
	c, err := client.New("unix:" + start(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 * wire.SharedMemoryAfterCalls {
		if _, err := c.CallRaw(context.Background(), "echo", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if moved := strings.Count(strings.Join(n.events, ";"), "moved 1 shared memory"); moved != 1 {
		t.Errorf("observed %d moves: %v", moved, n.events)
	}
	if last := n.calls[len(n.calls)-1].Connection; last.Transport != observe.SharedMemory || last.ID != 1 {
		t.Errorf("the last call used %+v", last)
	}
}

// The simple protocol is observed in the same way.
func TestObserverOfTheSimpleProtocol(t *testing.T) {
	n := new(notebook)
	s := newServer(t, server.WithObserver(n.observer()))
	register(t, s, "add", func(a, b int64) int64 { return a + b })
	c := dial(t, start(t, s))
	c.simple(`{"f":"add","a":[1,2]}`)
	n.expect(t, "opened 1 unix socket", "began add OK", "started add OK", "ended add OK none")
	c.simple(`{"f":"made_up"}`)
	n.expect(t, "began  OK", "ended  UNIMPLEMENTED not executed")
}

// The contexts of an observer tell what has come with the call.
func ExampleWithObserver() {
	ended := make(chan string, 1)
	observer := &observe.Observer{
		CallEnded: func(ctx context.Context, call *observe.Call) {
			of, _ := server.CallFromContext(ctx)
			ended <- fmt.Sprintf("%v %s %v by %s", of.Metadata["tenant"], call.Function, call.Code(), call.Connection.Transport)
		},
	}
	s := newExampleServer(server.WithObserver(observer))
	s.Register("half", half)
	c, stop := exampleServer(s)
	defer stop()
	_ = c.With(client.Metadata("tenant", "acme")).Call(context.Background(), "half", nil, 4)
	fmt.Println(<-ended)
	// Output: [acme] half OK by unix socket
}
