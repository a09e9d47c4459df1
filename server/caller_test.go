package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// testTimeout is for what ends at once, and for whole connections.
const testTimeout = time.Minute

// start serves s on a socket of its own until the test ends, and checks that it
// then stops cleanly.
func start(t testing.TB, s *server.Server) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	serving := &firstAccept{Listener: listener, seen: make(chan struct{})}
	go func() { served <- s.Serve(ctx, serving) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	select {
	case <-serving.seen:
	case err := <-served:
		served <- err
	}
	return path
}

// A firstAccept tells when the server has all it needs: tests count that.
type firstAccept struct {
	net.Listener
	once sync.Once
	seen chan struct{}
}

func (f *firstAccept) Accept() (net.Conn, error) {
	f.once.Do(func() { close(f.seen) })
	return f.Listener.Accept()
}

// newServer returns a server that logs to the test.
func newServer(t testing.TB, options ...server.Option) *server.Server {
	t.Helper()
	s, err := tryServer(options...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryServer returns what New does.
func tryServer(options ...server.Option) (*server.Server, error) {
	made := append(engineOptions(), server.WithLogger(slog.New(slog.DiscardHandler)))
	return server.New(append(made, options...)...)
}

func register(t testing.TB, s *server.Server, name string, fn any, options ...server.FunctionOption) {
	t.Helper()
	if err := s.Register(name, fn, options...); err != nil {
		t.Fatal(err)
	}
}

// A caller speaks the wire format byte by byte, so that tests can say what no
// client library would.
type caller struct {
	t       testing.TB
	conn    *net.UnixConn
	parser  wire.Parser
	pending []byte
	lastID  uint64
	welcome wire.Welcome
}

func dial(t testing.TB, path string) *caller {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testTimeout))
	return &caller{t: t, conn: conn}
}

// connect dials and exchanges hello and welcome.
func connect(t testing.TB, path string) *caller {
	t.Helper()
	c := dial(t, path)
	c.greet(hello())
	if c.welcome.Version != wire.Version {
		t.Fatalf("refused: %d %s", c.welcome.Status, c.welcome.Refusal)
	}
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	return c
}

func hello() wire.Hello {
	return wire.Hello{
		VersionMin: wire.Version, VersionMax: wire.Version, Offered: wire.FeatureSharedClock | wire.FeatureStreams,
		FrameBytesMax: wire.FrameBytesMaxCeiling, ClockNs: monotonic.New().Ns(), Software: "test/1",
	}
}

func (c *caller) greet(hello wire.Hello) {
	c.t.Helper()
	c.send(hello.Append(nil))
	c.pending = make([]byte, 0, wire.HelloBytesMax)
	for {
		n, err := wire.ParseWelcome(c.pending, &c.welcome)
		if err != nil {
			c.t.Fatal(err)
		}
		if n > 0 {
			c.pending = c.pending[n:]
			return
		}
		c.receive()
	}
}

func (c *caller) send(data []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(data); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) receive() {
	c.t.Helper()
	buffer := make([]byte, 64<<10)
	n, err := c.conn.Read(buffer)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	c.pending = append(c.pending, buffer[:n]...)
}

// next returns the next frame.
func (c *caller) next() wire.Frame {
	c.t.Helper()
	for {
		var frame wire.Frame
		n, err := c.parser.Next(c.pending, &frame)
		if err != nil {
			c.t.Fatal(err)
		}
		if n > 0 {
			c.pending = c.pending[n:]
			return frame
		}
		c.receive()
	}
}

// begin sends a request by name with MessagePack arguments.
func (c *caller) begin(name string, deadline uint32, arguments ...any) (id uint64) {
	c.t.Helper()
	payload, err := codec.AppendValue(nil, arguments)
	if err != nil {
		c.t.Fatal(err)
	}
	c.lastID++
	frame := wire.Frame{
		Header:     wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: c.lastID, Deadline: deadline},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name),
		Payload:    payload,
	}
	c.send(frame.Append(nil))
	return c.lastID
}

func (c *caller) cancel(id uint64) {
	c.t.Helper()
	frame := wire.Frame{Header: wire.Header{Type: wire.Cancel, CallID: id}}
	c.send(frame.Append(nil))
}

// result waits for one terminal frame and decodes it.
func (c *caller) result() (id uint64, value any, failure *status.Error) {
	c.t.Helper()
	return c.decode(c.next())
}

// decode decodes a terminal frame.
func (c *caller) decode(frame wire.Frame) (id uint64, value any, failure *status.Error) {
	c.t.Helper()
	switch frame.Type {
	case wire.Reply:
		decoder, err := codec.For[any]()
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := decoder.Decode(frame.Payload, &value); err != nil {
			c.t.Fatal(err)
		}
		return frame.CallID, value, nil
	case wire.Error:
		message, details, err := codec.DecodeFailure(frame.Payload)
		if err != nil {
			c.t.Fatal(err)
		}
		code, outcome, _ := wire.SplitStatus(frame.Status)
		return frame.CallID, nil, &status.Error{Code: status.Code(code), Outcome: status.Outcome(outcome), Message: message, Details: details}
	}
	c.t.Fatalf("%s frame where a REPLY or ERROR was expected", frame.Type)
	return 0, nil, nil
}

// call calls and waits.
func (c *caller) call(name string, arguments ...any) (any, *status.Error) {
	c.t.Helper()
	id := c.begin(name, 0, arguments...)
	answered, value, failure := c.result()
	if answered != id {
		c.t.Fatalf("answer for call %d, want %d", answered, id)
	}
	return value, failure
}

// wantFailure checks an error's code and outcome.
func wantFailure(t testing.TB, failure *status.Error, code status.Code, outcome status.Outcome) {
	t.Helper()
	if failure == nil || failure.Code != code || failure.Outcome != outcome {
		t.Errorf("failure %v, want %v with outcome %v", failure, code, outcome)
	}
}

// wantEnd checks that the server closes the connection.
func (c *caller) wantEnd() {
	c.t.Helper()
	_, err := c.conn.Read(make([]byte, 1))
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Errorf("read: %v, want the end of the connection", err)
	}
	if !errors.Is(err, io.EOF) {
		c.t.Logf("ended by %v", err)
	}
}

// A gate lets a test hold functions back and see that they started.
type gate struct {
	started chan struct{}
	release chan struct{}
	ended   atomic.Int64
}

func newGate() *gate {
	return &gate{started: make(chan struct{}, 1000), release: make(chan struct{})}
}

// wait waits for the release, whatever becomes of the caller.
func (g *gate) wait() int64 {
	g.started <- struct{}{}
	<-g.release
	return g.ended.Add(1)
}

// waitOrEnd waits for the release or the end of the context.
func (g *gate) waitOrEnd(ctx context.Context) (int64, error) {
	g.started <- struct{}{}
	select {
	case <-g.release:
		return g.ended.Add(1), nil
	case <-ctx.Done():
		g.ended.Add(1)
		return 0, ctx.Err()
	}
}
