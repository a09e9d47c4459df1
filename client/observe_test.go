package client_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// A notebook is an observer that writes down what it is told.
type notebook struct {
	mu    sync.Mutex
	lines []string
	calls []observe.Call // as they were when they ended
	ended chan error     // of connections
}

func newNotebook() *notebook { return &notebook{ended: make(chan error, 16)} }

func (n *notebook) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notebook) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.lines
	n.lines = nil
	return taken
}

func (n *notebook) last() observe.Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[len(n.calls)-1]
}

func (n *notebook) observer() *observe.Observer {
	event := func(name string) func(context.Context, *observe.Call) {
		return func(_ context.Context, call *observe.Call) {
			n.note("%s %s %d %v", name, call.Function, call.Attempt, call.Code())
		}
	}
	connection := func(name string) func(*observe.Connection) {
		return func(c *observe.Connection) { n.note("%s %d %s", name, c.ID, c.Transport) }
	}
	return &observe.Observer{
		ConnectionOpened: connection("opened"),
		ConnectionMoved:  connection("moved"),
		ConnectionRefused: func(c *observe.Connection, why error) {
			n.note("refused %d %s %v", c.ID, c.Transport, status.FromError(why).Code)
		},
		ConnectionEnded: func(c *observe.Connection, why error) {
			n.note("ended %d %v", c.ID, why != nil)
			n.ended <- why
		},
		CallBegan: event("began"), CallQueued: event("queued"), CallStarted: event("started"), CallRetried: event("retried"),
		CallEnded: func(ctx context.Context, call *observe.Call) {
			n.mu.Lock()
			n.calls = append(n.calls, *call)
			n.mu.Unlock()
			event("ended")(ctx, call)
		},
	}
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("observed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What an observer is told of calls that end well or badly, in its order.
func TestObserverOfCalls(t *testing.T) {
	n := newNotebook()
	c := demoClient(t, client.WithObserver(n.observer()), client.WithoutSharedMemory())
	ctx := context.Background()
	_, err := c.CallRaw(ctx, "echo", []byte("hello"), []byte("before"))
	must(t, err)
	expectLines(t, n.take(), "began echo 0 OK", "opened 1 unix socket", "started echo 1 OK", "ended echo 1 OK")
	call := n.last()
	if call.RequestBytes != 5 || call.ReplyBytes != 5 || call.Side != intercept.Caller || call.Took < call.Waited || call.Waited <= 0 ||
		time.Since(call.Began) < call.Took || call.Connection.Peer.Software == "" || !call.Connection.Peer.Local {
		t.Errorf("echo: %+v of %+v", call, call.Connection)
	}
	expectFailure(t, c.Call(ctx, "fail", nil, int(status.NotFound), "x"), status.NotFound, status.OutcomeExecuted)
	expectLines(t, n.take(), "began fail 0 OK", "started fail 1 OK", "ended fail 1 NOT_FOUND")
	if call := n.last(); call.ReplyBytes != 0 || call.Outcome() != status.OutcomeExecuted {
		t.Errorf("fail: %+v", call)
	}
	expectFailure(t, c.Call(ctx, "no_such_function", nil), status.Unimplemented, status.OutcomeNotExecuted)
	expectLines(t, n.take(), "began no_such_function 0 OK", "ended no_such_function 0 UNIMPLEMENTED")
	_, err = c.Ping(ctx)
	must(t, err)
	must(t, c.Close())
	expectLines(t, n.take(), "ended 1 false")
}

// Connections that are refused, lost, and opened again; attempts that follow others.
func TestObserverOfConnections(t *testing.T) {
	n := newNotebook()
	p := newPeer(t)
	c := p.client(client.WithObserver(n.observer()))
	done := begin(context.Background(), c, "echo", nil)
	first := p.serve()
	first.expect(wire.Request)
	first.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: 0}})
	second := p.serve()
	second.reply(second.expect(wire.Request), []byte("x"))
	expectReply(t, wait(t, done), "x")
	<-n.ended
	expectSorted(t, n.take(), "began echo 0 OK", "opened 1 unix socket", "started echo 1 OK", "ended 1 false",
		"retried echo 1 UNAVAILABLE", "opened 2 unix socket", "started echo 2 OK", "ended echo 2 OK")
	done = begin(context.Background(), c, "echo", nil)
	second.expect(wire.Request)
	second.end()
	if wait(t, done).err == nil {
		t.Error("a call that was lost succeeded")
	}
	if why := <-n.ended; !errors.Is(why, status.Unavailable) {
		t.Errorf("the connection ended by %v", why)
	}
	n.take()

	away, err := client.New("unix:"+filepath.Join(t.TempDir(), "nobody"), client.WithObserver(n.observer()), client.WithAttempts(1))
	must(t, err)
	defer away.Close()
	expectFailure(t, away.Call(context.Background(), "echo", nil), status.Unavailable, status.OutcomeNotExecuted)
	expectLines(t, n.take(), "began echo 0 OK", "refused 0 unix socket UNAVAILABLE", "ended echo 0 UNAVAILABLE")
	if counted := away.Statistics(); counted.ConnectionsRefusedTotal != 1 || counted.FailuresTotal != 1 || counted.ConnectionsTotal != 0 {
		t.Errorf("counted %+v", counted)
	}
}

// expectSorted compares without regard to order, for what several goroutines tell.
func expectSorted(t *testing.T, got []string, want ...string) {
	t.Helper()
	left := map[string]int{}
	for _, line := range want {
		left[line]++
	}
	for _, line := range got {
		left[line]--
	}
	for line, count := range left {
		if count != 0 {
			t.Errorf("%q: %d too few\nobserved\n%s", line, count, strings.Join(got, "\n"))
		}
	}
}

// A call that waits behind as many as the server allows is queued.
func TestObserverOfQueuedCalls(t *testing.T) {
	n := newNotebook()
	p := newPeer(t)
	p.welcome.CallsInFlightMax = 1
	c := p.client(client.WithObserver(n.observer()))
	first := begin(context.Background(), c, "one", nil)
	conn := p.serve()
	request := conn.expect(wire.Request)
	second := begin(context.Background(), c, "two", nil)
	eventually(t, func() bool { return strings.Contains(strings.Join(n.peek(), ";"), "queued two 0 OK") }, func() string { return "nothing is queued" })
	conn.reply(request, nil)
	expectReply(t, wait(t, first), "")
	conn.reply(conn.expect(wire.Request), nil)
	expectReply(t, wait(t, second), "")
}

func (n *notebook) peek() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.lines...)
}

// A busy connection is told to have moved, and what it carries is counted.
func TestObserverOfMemory(t *testing.T) {
	n := newNotebook()
	c := withMemory(t, startServer(t), client.WithObserver(n.observer()))
	_, err := c.CallRaw(context.Background(), "echo", []byte("x"), nil)
	must(t, err)
	if call := n.last(); call.Connection.Transport != observe.SharedMemory || call.Connection.ID != 1 {
		t.Errorf("the call used %+v", call.Connection)
	}
	if lines := strings.Join(n.take(), ";"); strings.Count(lines, "moved 1 shared memory") != 1 {
		t.Errorf("observed %s", lines)
	}
}

// Statistics count what has travelled, also over connections that have ended.
func TestStatistics(t *testing.T) {
	address := demoServer(t)
	c := newClient(t, address)
	const calls, bytes = 50, 1000
	for range calls {
		_, err := c.CallRaw(context.Background(), "echo", make([]byte, bytes), nil)
		must(t, err)
	}
	expectFailure(t, c.Call(context.Background(), "fail", nil, int(status.NotFound), "x"), status.NotFound, status.OutcomeExecuted)
	check := func(connections int) {
		t.Helper()
		got := c.With().Statistics()
		if got.Connections != connections || got.ConnectionsTotal != 1 || got.RequestsTotal != calls+2 || got.FailuresTotal != 1 || got.CallsInFlight != 0 ||
			got.SharedMemoryTotal != 1 || got.SentBytesTotal < calls*bytes || got.SentBytesTotal > 2*calls*bytes || got.ReceivedBytesTotal < calls*bytes {
			t.Errorf("counted %+v", got)
		}
	}
	check(1)
	must(t, c.Close())
	check(0)
}

// Several observers have a State each, and see all events.
func TestObserversTogether(t *testing.T) {
	var got [2][]string
	watching := func(i int) *observe.Observer {
		return &observe.Observer{
			CallBegan: func(_ context.Context, call *observe.Call) {
				if call.State != nil {
					t.Errorf("observer %d finds the state %v", i, call.State)
				}
				call.State = fmt.Sprint("state ", i)
			},
			CallEnded: func(_ context.Context, call *observe.Call) { got[i] = append(got[i], call.State.(string)) },
		}
	}
	c := demoClient(t, client.WithObserver(watching(0)), client.WithObserver(nil), client.WithObserver(watching(1)), client.WithObserver(new(observe.Observer)))
	for range 2 {
		must(t, c.Call(context.Background(), "one", nil))
	}
	if want := [2][]string{{"state 0", "state 0"}, {"state 1", "state 1"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// BenchmarkObserver compares calls without an observer, with an empty one, and with one
// that counts.
func BenchmarkObserver(b *testing.B) {
	var ended uint64
	for name, options := range map[string][]client.Option{
		"none":  nil,
		"empty": {client.WithObserver(&observe.Observer{})},
		"counting": {client.WithObserver(&observe.Observer{
			CallEnded: func(_ context.Context, call *observe.Call) { ended += uint64(call.ReplyBytes) },
		})},
	} {
		b.Run(name, func(b *testing.B) {
			c, err := client.New(demoServer(b), options...)
			must(b, err)
			defer c.Close()
			in, out := make([]byte, 64), make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallRaw(context.Background(), "echo", in, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Two hooks tell which requests are slow on their way and which in the function.
func ExampleWithObserver() {
	address, stop := serveExample()
	defer stop()
	c, err := client.New(address, client.WithObserver(&observe.Observer{
		ConnectionOpened: func(c *observe.Connection) { fmt.Println("connected by", c.Transport) },
		CallEnded: func(_ context.Context, call *observe.Call) {
			fmt.Println(call.Function, call.Code(), call.Outcome(), call.Attempt, call.Took > call.Waited)
		},
	}))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = client.Call[string](context.Background(), c, "find", "blue")
	// Output:
	// connected by unix socket
	// find NOT_FOUND executed 1 true
}
