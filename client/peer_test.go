package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/processes"
)

// patience bounds every wait for something that must happen.
const patience = time.Minute

// A peer is a server that does what the test says, on a real socket.
type peer struct {
	t        *testing.T
	listener socketListener
	address  string
	welcome  wire.Welcome
	// wrap gives a connection TLS, nil if there is none; options are those of its clients.
	wrap    func(net.Conn) net.Conn
	options []client.Option

	// clockAhead is of its clock, as in another time namespace.
	clockAhead time.Duration
}

// A socketListener is a listener of the kernel.
type socketListener interface {
	net.Listener
	syscall.Conn
	SetDeadline(t time.Time) error
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	// t.TempDir contains the test's name, which a socket's path has no room for.
	directory, err := os.MkdirTemp("", "nc")
	must(t, err)
	path := filepath.Join(directory, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	t.Cleanup(func() {
		listener.Close()
		os.RemoveAll(directory)
	})
	return &peer{t: t, listener: listener, address: "unix:" + path, welcome: newWelcome(wire.FeatureSharedClock)}
}

func newWelcome(accepted wire.Feature) wire.Welcome {
	return wire.Welcome{
		Version: wire.Version, Accepted: accepted, Instance: 1, ProcessID: uint32(os.Getpid()),
		FrameBytesMax: wire.FrameBytesMax, CallsInFlightMax: wire.CallsInFlightMax, SchemaHash: 7}
}

// client returns a client of the peer that is closed, with all its goroutines
// gone, when the test ends.
func (p *peer) client(options ...client.Option) *client.Client {
	p.t.Helper()
	return newClient(p.t, p.address, append(options, p.options...)...)
}

func newClient(t *testing.T, address string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(address, options...)
	must(t, err)
	t.Cleanup(func() {
		must(t, c.Close())
		expectNoGoroutines(t)
	})
	return c
}

// expectNoGoroutines waits until no goroutine runs the client's code.
func expectNoGoroutines(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	eventually(t, func() bool {
		stacks = stacks[:runtime.Stack(stacks[:cap(stacks)], true)]
		return !strings.Contains(string(stacks), "client.(*connection)") && !strings.Contains(string(stacks), "client.(*core)") &&
			!strings.Contains(string(stacks), "client.(*endpoint)") && !strings.Contains(string(stacks), "client.(*hostName)")
	}, func() string { return "goroutines are left:\n" + string(stacks) })
}

// eventually polls what has no event to wait for.
func eventually(t *testing.T, holds func() bool, text func() string) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(text())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A peerConn is the server's end of a connection.
type peerConn struct {
	net.Conn
	t      *testing.T
	parser wire.Parser
	buffer []byte
	hello  wire.Hello
}

// accept takes the next connection and does nothing with it.
func (p *peer) accept() *peerConn {
	p.t.Helper()
	must(p.t, p.listener.SetDeadline(time.Now().Add(patience)))
	conn, err := p.listener.Accept()
	must(p.t, err)
	if p.wrap != nil {
		conn = p.wrap(conn)
	}
	p.t.Cleanup(func() { conn.Close() })
	must(p.t, conn.SetDeadline(time.Now().Add(patience)))
	return &peerConn{Conn: conn, t: p.t, parser: wire.Parser{From: wire.CallerSide, FrameBytesMax: wire.FrameBytesMax}}
}

// expectNoConnection checks that nobody waits in the backlog.
func (p *peer) expectNoConnection() {
	p.t.Helper()
	raw, err := p.listener.SyscallConn()
	must(p.t, err)
	var failure error
	must(p.t, raw.Control(func(fd uintptr) {
		var accepted int
		if accepted, _, failure = syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC); failure == nil {
			syscall.Close(accepted)
		}
	}))
	if !errors.Is(failure, syscall.EAGAIN) {
		p.t.Fatalf("another connection was opened (%v)", failure)
	}
}

// serve takes the next connection and welcomes it.
func (p *peer) serve() *peerConn {
	p.t.Helper()
	conn := p.accept()
	if secure, ok := conn.Conn.(transport.Identified); ok {
		must(p.t, secure.Secure(context.Background()))
	}
	conn.readHello()
	p.welcome.ClockNs = monotonic.New().Ns() + uint64(p.clockAhead)
	conn.write(p.welcome.Append(nil))
	return conn
}

func (c *peerConn) readHello() {
	c.t.Helper()
	for {
		taken, err := wire.ParseHello(c.buffer, &c.hello)
		must(c.t, err)
		if taken > 0 {
			c.buffer = c.buffer[taken:]
			return
		}
		c.read()
	}
}

func (c *peerConn) read() {
	c.t.Helper()
	part := make([]byte, 64<<10)
	n, err := c.Read(part)
	must(c.t, err)
	c.buffer = append(c.buffer, part[:n]...)
}

// next returns the next frame; nothing in it aliases the buffer.
func (c *peerConn) next() wire.Frame {
	c.t.Helper()
	for {
		var frame wire.Frame
		taken, err := c.parser.Next(c.buffer, &frame)
		must(c.t, err)
		if taken > 0 {
			c.buffer = append([]byte(nil), c.buffer[taken:]...)
			return frame
		}
		c.read()
	}
}

func (c *peerConn) expect(kind wire.FrameType) wire.Frame {
	c.t.Helper()
	frame := c.next()
	if frame.Type != kind {
		c.t.Fatalf("got %v, want %v", frame.Type, kind)
	}
	return frame
}

func (c *peerConn) write(b []byte) {
	c.t.Helper()
	_, err := c.Write(b)
	must(c.t, err)
}

func (c *peerConn) send(frame wire.Frame) { c.write(frame.Append(nil)) }

func replyTo(request wire.Frame, payload []byte) wire.Frame {
	return wire.Frame{Header: wire.Header{Type: wire.Reply, Codec: request.Codec, CallID: request.CallID, FunctionID: 1}, Payload: payload}
}

// describe answers the question that comes before the first typed call of a
// function: it is like fn.
func (c *peerConn) describe(fn any) {
	c.t.Helper()
	question := c.expect(wire.Resolve)
	c.send(described(c.t, question, fn))
}

func described(t testing.TB, question wire.Frame, fn any) wire.Frame {
	t.Helper()
	f := describe(t, string(question.Payload), fn)
	answer := replyTo(question, f.AppendMessagePack(nil))
	answer.Codec = wire.CodecMessagePack
	return answer
}

func describe(t testing.TB, name string, fn any, params ...string) *schema.Function {
	t.Helper()
	signature, err := schema.SignatureOf(reflect.TypeOf(fn))
	must(t, err)
	f, err := schema.FromGoFunction(name, signature, schema.GoOptions{ParamNames: params})
	must(t, err)
	return f
}

func (c *peerConn) reply(request wire.Frame, payload []byte) { c.send(replyTo(request, payload)) }

func failureOf(request wire.Frame, failure *status.Error) wire.Frame {
	return wire.Frame{Header: wire.Header{Type: wire.Error, Codec: wire.CodecMessagePack, CallID: request.CallID,
		Status: wire.StatusField(uint8(failure.Code), uint8(failure.Outcome))}, Payload: codec.AppendFailure(nil, failure)}
}

func (c *peerConn) fail(request wire.Frame, code status.Code, outcome status.Outcome) {
	c.send(failureOf(request, &status.Error{Code: code, Outcome: outcome, Message: "as the test says"}))
}

// awaitUnread waits until bytes of the caller lie in the socket, without
// reading them.
func (c *peerConn) awaitUnread() {
	c.t.Helper()
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	must(c.t, err)
	var failure error
	must(c.t, raw.Read(func(fd uintptr) bool {
		_, _, failure = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return !errors.Is(failure, syscall.EAGAIN)
	}))
	must(c.t, failure)
}

// WriteMsgUnix is that of a local socket.
func (c *peerConn) WriteMsgUnix(b, rights []byte, to *net.UnixAddr) (n, rightsBytes int, err error) {
	return c.Conn.(*net.UnixConn).WriteMsgUnix(b, rights, to)
}

// expectEnd waits until the caller has closed, and fails if it sends anything before that.
func (c *peerConn) expectEnd() {
	c.t.Helper()
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		c.t.Fatalf("read %d bytes and %v, want the end", n, err)
	}
}

func (c *peerConn) end() { must(c.t, c.Close()) }

// A result is what a call returned, and when. late is by how much the machine
// kept other goroutines waiting meanwhile.
type result struct {
	reply []byte
	err   error
	took  time.Duration
	early time.Duration // how long before its context's deadline it ended
	late  time.Duration
}

// begin makes a raw call in a goroutine of its own.
func begin(ctx context.Context, c *client.Client, name string, payload []byte) <-chan result {
	done := make(chan result, 1)
	start, late := time.Now(), measureLateness()
	go func() {
		reply, err := c.CallRaw(ctx, name, payload, nil)
		deadline, _ := ctx.Deadline()
		done <- result{reply, err, time.Since(start), time.Until(deadline), late()}
	}()
	return done
}

// expectOnTime holds a call to its deadline + 50 ms, and what the machine made of that.
func expectOnTime(t *testing.T, took, timeout, late time.Duration) {
	t.Helper()
	if took > timeout+50*time.Millisecond+late {
		t.Errorf("it took %v for a deadline of %v, where this machine was %v late", took, timeout, late)
	}
}

// measureLateness returns a function that ends the measurement and tells by how much
// this machine, which may do other work, made calls late: a goroutine of theirs is woken a few times,
// each time as late as one that only sleeps, and what it does takes longer by what
// threads wait for a processor.
func measureLateness() (end func() time.Duration) {
	const (
		nap   = 2 * time.Millisecond
		wakes = 4
	)
	delay := processes.OwnDelay()
	stop, latest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for {
			start := time.Now()
			select {
			case <-stop:
				latest <- max(most, time.Since(start)-nap)
				return
			case <-time.After(nap):
				most = max(most, time.Since(start)-nap)
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return wakes*<-latest + max(0, processes.OwnDelay()-delay)
	}
}

func wait(t *testing.T, done <-chan result) result {
	t.Helper()
	select {
	case got := <-done:
		return got
	case <-time.After(patience):
		t.Fatal("the call does not return")
		return result{}
	}
}

func expectReply(t *testing.T, got result, want string) {
	t.Helper()
	must(t, got.err)
	if string(got.reply) != want {
		t.Fatalf("got %q, want %q", got.reply, want)
	}
}

func expectFailure(t *testing.T, err error, code status.Code, outcome status.Outcome) *status.Error {
	t.Helper()
	var failure *status.Error
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want %v, %v", err, code, outcome)
	}
	if failure.Code != code || failure.Outcome != outcome {
		t.Fatalf("got %v, %v (%v); want %v, %v", failure.Code, failure.Outcome, failure.Message, code, outcome)
	}
	return failure
}
