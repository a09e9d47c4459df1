package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

func TestRegisterRefusesWithASentence(t *testing.T) {
	s := newServer(t)
	for name, fn := range map[string]any{
		"channel":        func(c chan int) {},
		"complex":        func() complex64 { return 0 },
		"nearcall.mine":  func() {},
		"not_a_function": 3,
		"":               func() {},
		"too_long" + strings.Repeat("x", wire.FunctionNameBytesMax): func() {},
	} {
		if err := s.Register(name, fn); err == nil {
			t.Errorf("Register(%.20q, %T) succeeded", name, fn)
		} else {
			t.Log(err)
		}
	}
	if err := s.ListenAndServe(context.Background(), "unix:"+filepath.Join(t.TempDir(), "s")); err == nil {
		t.Error("a server whose registrations failed serves")
	}
}

func TestRegisterTwice(t *testing.T) {
	s := newServer(t)
	register(t, s, "one", func() int64 { return 1 })
	if err := s.Register("one", func() int64 { return 1 }); err == nil {
		t.Error("a name was taken twice")
	}
	if err := s.ListenAndServe(context.Background(), "unix:"+filepath.Join(t.TempDir(), "s")); err == nil {
		t.Error("a server with two functions of one name serves")
	}
}

func TestPanicIsAnsweredAndSurvived(t *testing.T) {
	s := newServer(t)
	register(t, s, "panic", func() { panic("secret") })
	register(t, s, "one", func() int64 { return 1 })
	c := connect(t, start(t, s))
	for range 20 {
		_, failure := c.call("panic")
		wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
		if strings.Contains(failure.Message, "secret") || strings.Contains(failure.Message, "goroutine") {
			t.Fatalf("the message tells what only the log should: %s", failure.Message)
		}
	}
	if value, failure := c.call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
}

func TestSlowFunctionHoldsUpNobody(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait)
	register(t, s, "one", func() int64 { return 1 })
	path := start(t, s)
	c := connect(t, path)
	// Several in a row: the first is run by the reader and taken over from
	// it, later ones run apart.
	for range 5 {
		c.begin("wait", 0)
	}
	if id, value, failure := func() (uint64, any, *status.Error) { c.begin("one", 0); return c.result() }(); id != 6 || value != int64(1) {
		t.Errorf("answer %d %v %v, want that of call 6", id, value, failure)
	}
	for range 5 {
		<-g.started
	}
	close(g.release)
	seen := map[uint64]bool{}
	for range 5 {
		id, _, failure := c.result()
		if failure != nil || seen[id] {
			t.Errorf("call %d: %v", id, failure)
		}
		seen[id] = true
	}
}

func TestManyCallsInOneWrite(t *testing.T) {
	s := newServer(t)
	register(t, s, "double", func(n int64) int64 { return 2 * n })
	c := connect(t, start(t, s))
	const calls = 500
	for i := range calls {
		c.begin("double", 0, int64(i))
	}
	for range calls {
		id, value, failure := c.result()
		if value != int64(2*(id-1)) {
			t.Fatalf("call %d = %v, %v", id, value, failure)
		}
	}
}

func TestCancelEndsTheContext(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.waitOrEnd)
	c := connect(t, start(t, s))
	for range 3 {
		id := c.begin("wait", 0)
		<-g.started
		c.cancel(id)
		_, _, failure := c.result()
		wantFailure(t, failure, status.Cancelled, status.OutcomeExecuted)
	}
	c.cancel(12345)
	c.cancel(1)
	id := c.begin("wait", 0)
	<-g.started
	c.cancel(id)
	c.result()
}

func TestCancelBeforeTheStartIsNotExecuted(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait, server.MaxConcurrency(1))
	c := connect(t, start(t, s))
	first := c.begin("wait", 0)
	<-g.started
	second := c.begin("wait", 0)
	c.cancel(second)
	id, _, failure := c.result()
	if id != second {
		t.Errorf("answer for %d, want %d", id, second)
	}
	wantFailure(t, failure, status.Cancelled, status.OutcomeNotExecuted)
	close(g.release)
	if id, _, failure := c.result(); id != first || failure != nil {
		t.Errorf("answer for %d: %v", id, failure)
	}
	if ran := g.ended.Load(); ran != 1 {
		t.Errorf("the function ran %d times", ran)
	}
}

func TestDisconnectEndsTheContext(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.waitOrEnd)
	path := start(t, s)
	c := connect(t, path)
	c.begin("wait", 0)
	c.begin("wait", 0)
	<-g.started
	<-g.started
	c.conn.Close()
	waitFor(t, "both functions to end", func() bool { return g.ended.Load() == 2 })
}

// waitFor polls where there is no event to wait for.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", testTimeout, what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestDeadlineReachesTheContext(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.waitOrEnd)
	c := connect(t, start(t, s))
	if c.welcome.Accepted&wire.FeatureSharedClock == 0 {
		t.Fatal("the shared clock was not accepted")
	}
	started := time.Now()
	c.begin("wait", deadlineIn(100*time.Millisecond))
	_, _, failure := c.result()
	wantFailure(t, failure, status.DeadlineExceeded, status.OutcomeExecuted)
	if took := time.Since(started); took < 90*time.Millisecond || took > 5*time.Second { // a busy machine may be late
		t.Errorf("ended after %v, want 100ms", took)
	}
}

func TestExpiredRequestIsNotExecuted(t *testing.T) {
	s := newServer(t)
	register(t, s, "fatal", func() { t.Error("executed after its deadline") })
	c := connect(t, start(t, s))
	c.begin("fatal", deadlineIn(-time.Second))
	_, _, failure := c.result()
	wantFailure(t, failure, status.DeadlineExceeded, status.OutcomeNotExecuted)
}

func TestMaxRunTime(t *testing.T) {
	s, g := newServer(t), newGate()
	late := make(chan time.Duration, 1)
	register(t, s, "stubborn", g.wait, server.MaxRunTime(50*time.Millisecond))
	register(t, s, "heeding", func(ctx context.Context) (int64, error) {
		deadline, _ := ctx.Deadline()
		n, err := g.waitOrEnd(ctx)
		late <- time.Since(deadline)
		return n, err
	}, server.MaxRunTime(50*time.Millisecond))
	c := connect(t, start(t, s))
	_, failure := c.call("stubborn")
	wantFailure(t, failure, status.DeadlineExceeded, status.OutcomeUnknown)
	_, failure = c.call("heeding")
	outcome := status.OutcomeExecuted
	// Woken so late by a machine that does other work, it has not heeded anything.
	if <-late > wire.CancelGraceMs*time.Millisecond/2 && failure != nil {
		outcome = failure.Outcome
	}
	wantFailure(t, failure, status.DeadlineExceeded, outcome)
	close(g.release)
}

func TestMaxConcurrency(t *testing.T) {
	s := newServer(t)
	var mu sync.Mutex
	running, most := 0, 0
	register(t, s, "busy", func() {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
	}, server.MaxConcurrency(3))
	c := connect(t, start(t, s))
	for range 30 {
		c.begin("busy", 0)
	}
	for range 30 {
		if _, _, failure := c.result(); failure != nil {
			t.Error(failure)
		}
	}
	if most > 3 || most < 2 {
		t.Errorf("%d ran at a time, want 3", most)
	}
}

func TestCallsInFlightLimit(t *testing.T) {
	s, g := newServer(t, server.WithCallsInFlight(2, 100)), newGate()
	register(t, s, "wait", g.wait)
	c := connect(t, start(t, s))
	c.begin("wait", 0)
	c.begin("wait", 0)
	<-g.started
	<-g.started
	c.begin("wait", 0)
	id, _, failure := c.result()
	if id != 3 {
		t.Errorf("answer for %d, want 3", id)
	}
	wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	close(g.release)
	c.result()
	c.result()
}

func TestConnectionsLimit(t *testing.T) {
	s := newServer(t, server.WithConnections(100, 2))
	register(t, s, "one", func() int64 { return 1 })
	path := start(t, s)
	first, second := connect(t, path), connect(t, path)
	third := dial(t, path)
	third.greet(hello())
	if third.welcome.Version != 0 || status.Code(third.welcome.Status) != status.ResourceExhausted {
		t.Errorf("welcome %+v, want RESOURCE_EXHAUSTED", third.welcome)
	}
	first.conn.Close()
	waitFor(t, "the place to be given back", func() bool { return s.Statistics().Connections < 2 })
	connect(t, path)
	if value, _ := second.call("one"); value != int64(1) {
		t.Errorf("one = %v", value)
	}
}

func TestAllowedUsers(t *testing.T) {
	s := newServer(t, server.WithAllowedUsers(uint32(os.Getuid())+1))
	path := start(t, s)
	c := dial(t, path)
	c.greet(hello())
	if c.welcome.Version != 0 || status.Code(c.welcome.Status) != status.PermissionDenied {
		t.Errorf("welcome %+v, want PERMISSION_DENIED", c.welcome)
	}
	c.wantEnd()

	s = newServer(t, server.WithAllowedGroups(uint32(os.Getgid())))
	register(t, s, "who", func(ctx context.Context) (string, error) {
		call, _ := server.CallFromContext(ctx)
		return fmt.Sprint(call.Function, call.Peer.UserID, call.Peer.Software), nil
	})
	c = connect(t, start(t, s))
	if value, failure := c.call("who"); value != fmt.Sprint("who", uint32(os.Getuid()), "test/1") {
		t.Errorf("who = %v, %v", value, failure)
	}
}

func TestAllowListsNeedALocalSocket(t *testing.T) {
	s := newServer(t, server.WithAllowedUsers(0))
	if err := s.ListenAndServe(context.Background(), "tcp:127.0.0.1:0"); err == nil {
		t.Error("a server with a list of users serves TCP")
	}
}

func TestInterceptors(t *testing.T) {
	var order []string
	around := func(name string) intercept.Interceptor {
		return func(ctx context.Context, call intercept.Call, next intercept.Next) error {
			order = append(order, name+" before "+call.Function())
			err := next(ctx)
			order = append(order, name+" after")
			return err
		}
	}
	refuse := func(_ context.Context, call intercept.Call, next intercept.Next) error {
		if call.Function() == "secret" {
			return status.Errorf(status.PermissionDenied, "no").With(status.OutcomeNotExecuted)
		}
		return next(context.Background())
	}
	s := newServer(t, server.WithInterceptor(around("outer")), server.WithInterceptor(refuse), server.WithInterceptor(around("inner")))
	register(t, s, "open", func() int64 { return 7 })
	register(t, s, "secret", func() { t.Error("executed") })
	c := connect(t, start(t, s))
	if value, failure := c.call("open"); value != int64(7) {
		t.Errorf("open = %v, %v", value, failure)
	}
	_, failure := c.call("secret")
	wantFailure(t, failure, status.PermissionDenied, status.OutcomeNotExecuted)
	want := "[outer before open inner before open inner after outer after outer before secret outer after]"
	if got := fmt.Sprint(order); got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

func TestResultTooLargeForTheCaller(t *testing.T) {
	s := newServer(t)
	register(t, s, "large", func() []byte { return make([]byte, wire.FrameBytesFloor+1) })
	register(t, s, "one", func() int64 { return 1 })
	c := dial(t, start(t, s))
	small := hello()
	small.FrameBytesMax = wire.FrameBytesFloor
	c.greet(small)
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesFloor, Features: c.welcome.Accepted}
	_, failure := c.call("large")
	wantFailure(t, failure, status.ResourceExhausted, status.OutcomeExecutedResultLost)
	if value, failure := c.call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
}

func TestDrain(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", g.wait)
	path := filepath.Join(t.TempDir(), "s")
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	c := connect(t, path)
	id := c.begin("wait", 0)
	<-g.started
	stop()
	if frame := c.next(); frame.Type != wire.Drain || frame.CallID != id {
		t.Errorf("%s with id %d, want DRAIN with %d", frame.Type, frame.CallID, id)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("a draining server accepts")
	}
	close(g.release)
	if answered, _, failure := c.result(); answered != id || failure != nil {
		t.Errorf("answer for %d: %v", answered, failure)
	}
	c.wantEnd()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestDrainTimeout(t *testing.T) {
	s, g := newServer(t, server.WithDrainTimeout(50*time.Millisecond)), newGate()
	register(t, s, "wait", g.wait)
	causes := make(chan error, 1)
	register(t, s, "wait_in_context", func(ctx context.Context) {
		_, _ = g.waitOrEnd(ctx)
		causes <- context.Cause(ctx)
	})
	path := filepath.Join(t.TempDir(), "s")
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	c := connect(t, path)
	c.begin("wait", 0)
	<-g.started
	other := connect(t, path)
	other.begin("wait_in_context", 0)
	<-g.started
	stop()
	if err := <-served; !errors.Is(err, server.ErrDrainTimeout) {
		t.Errorf("Serve: %v, want ErrDrainTimeout", err)
	}
	if cause := <-causes; !errors.Is(cause, server.ErrDrainTimeout) {
		t.Errorf("the context ended by %v, want ErrDrainTimeout", cause)
	}
	close(g.release)
}

func TestAddressInUseAndStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ctx := context.Background()
	first, err := newServer(t).Listen(ctx, "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newServer(t).Listen(ctx, "unix:"+path); !errors.Is(err, transport.ErrInUse) {
		t.Errorf("second Listen: %v, want ErrInUse", err)
	}
	first.Close()
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	again, err := newServer(t).Listen(ctx, "unix:"+path)
	if err != nil {
		t.Fatalf("Listen over a dead server's socket: %v", err)
	}
	again.Close()
}

func TestSocketModeWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	for _, umask := range []int{0, 0o022, 0o077} {
		syscall.Umask(umask)
		path := filepath.Join(t.TempDir(), "s")
		listener, err := newServer(t).Listen(context.Background(), "unix:"+path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("umask %03o: mode %v, %v, want 0660", umask, info.Mode(), err)
		}
		listener.Close()
	}
}

func TestDescriptorsEndTheConnection(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	s := newServer(t)
	path := start(t, s)
	c := connect(t, path)
	ping := wire.Frame{Header: wire.Header{Type: wire.Ping}}
	if _, _, err := c.conn.WriteMsgUnix(ping.Append(nil), syscall.UnixRights(0, 1, 2), nil); err != nil {
		t.Fatal(err)
	}
	_, _, failure := c.result()
	wantFailure(t, failure, status.InvalidArgument, status.OutcomeNotExecuted)
	c.wantEnd()
	if other := connect(t, path); other.welcome.Version != wire.Version {
		t.Error("others are affected")
	}
}

func TestSilentConnections(t *testing.T) {
	s := newServer(t, server.WithHelloTimeout(100*time.Millisecond), server.WithFrameTimeout(100*time.Millisecond))
	path := start(t, s)
	silent := dial(t, path)
	silent.wantEnd()
	half := connect(t, path)
	half.send(make([]byte, 0))
	frame := wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte("x")}
	half.send(frame.Append(nil)[:wire.HeaderBytes])
	_, _, failure := half.result()
	wantFailure(t, failure, status.Unavailable, status.OutcomeNotExecuted)
	half.wantEnd()
}

func TestPeerThatDoesNotReadLosesItsConnection(t *testing.T) {
	s := newServer(t, server.WithWriteTimeout(100*time.Millisecond))
	register(t, s, "large", func() []byte { return make([]byte, 1<<20) })
	register(t, s, "one", func() int64 { return 1 })
	path := start(t, s)
	deaf := connect(t, path)
	for range 20 {
		deaf.begin("large", 0)
	}
	other := connect(t, path)
	waitFor(t, "the deaf peer to be cut off", func() bool {
		if value, failure := other.call("one"); value != int64(1) {
			t.Fatalf("one = %v, %v", value, failure)
		}
		return s.Statistics().Connections == 1
	})
}

func TestActivation(t *testing.T) {
	if os.Getenv("NEARCALL_TEST_ACTIVATED") != "" {
		serveActivated(t)
		return
	}
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 NEARCALL_TEST_ACTIVATED=1 exec "$0" -test.run '^TestActivation$'`, os.Args[0])
	child.ExtraFiles = []*os.File{file}
	child.Stdout, child.Stderr = os.Stderr, os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	c := connect(t, path)
	if value, failure := c.call("one"); value != int64(1) {
		t.Errorf("one = %v, %v", value, failure)
	}
	child.Process.Signal(syscall.SIGTERM)
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

func serveActivated(t *testing.T) {
	listeners, err := server.ActivationListeners()
	if err != nil || len(listeners) != 1 {
		t.Fatalf("ActivationListeners = %v, %v", listeners, err)
	}
	ctx, stop := signalContext()
	defer stop()
	s := newServer(t)
	register(t, s, "one", func() int64 { return 1 })
	if err := s.Serve(ctx, listeners[0]); err != nil {
		t.Fatal(err)
	}
}
