package eventloop_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/eventloop"
)

const timeout = 20 * time.Second

// A running is a server that serves.
type running struct {
	testing.TB
	*server.Server
	address net.Addr
	stop    context.CancelFunc
	served  chan error
}

// serve serves s at an address until the test ends.
func serve(t testing.TB, s *server.Server, address string) *running {
	t.Helper()
	listener, err := s.Listen(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, listener)
}

// serveOn serves s on a listener until the test ends.
func serveOn(t testing.TB, s *server.Server, listener net.Listener) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &running{TB: t, Server: s, address: listener.Addr(), stop: stop, served: make(chan error, 1)}
	go func() { r.served <- s.Serve(ctx, listener) }()
	t.Cleanup(stop)
	return r
}

// end stops the server and waits for it.
func (r *running) end() {
	r.Helper()
	r.stop()
	if err := <-r.served; err != nil {
		r.Errorf("Serve: %v", err)
	}
}

func unixAddress(t testing.TB) string { return "unix:" + filepath.Join(t.TempDir(), "s") }

// newServer returns a server with the event loop that serves echo.
func newServer(t testing.TB, options ...server.Option) *server.Server {
	t.Helper()
	return newServerWith(t, append([]server.Option{server.WithEngine(eventloop.New())}, options...)...)
}

func newServerWith(t testing.TB, options ...server.Option) *server.Server {
	t.Helper()
	s, err := server.New(append([]server.Option{
		server.WithLogger(slog.New(slog.DiscardHandler)), server.WithConnections(10000, 10000),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	register(t, s, "echo", func(data []byte) []byte { return data })
	return s
}

func register(t testing.TB, s *server.Server, name string, fn any) {
	t.Helper()
	if err := s.Register(name, fn); err != nil {
		t.Fatal(err)
	}
}

// A caller speaks the wire format byte by byte.
type caller struct {
	testing.TB
	net.Conn
	parser  wire.Parser
	pending []byte
	lastID  uint64
}

// dial connects without a word.
func (r *running) dial() *caller {
	r.Helper()
	conn, err := net.Dial(r.address.Network(), r.address.String())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(timeout))
	return &caller{TB: r.TB, Conn: conn}
}

func hello() []byte {
	h := wire.Hello{VersionMin: wire.Version, VersionMax: wire.Version, FrameBytesMax: wire.FrameBytesMaxCeiling, Software: "test/1"}
	return h.Append(nil)
}

// connect dials and exchanges hello and welcome.
func (r *running) connect() *caller {
	r.Helper()
	c := r.dial()
	c.send(hello())
	c.welcomed()
	return c
}

func (c *caller) welcomed() {
	c.Helper()
	var welcome wire.Welcome
	for {
		n, err := wire.ParseWelcome(c.pending, &welcome)
		if err != nil || n > 0 && welcome.Status != 0 {
			c.Fatalf("refused: %v %s", err, welcome.Refusal)
		}
		if n > 0 {
			c.pending = c.pending[n:]
			c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: welcome.Accepted}
			return
		}
		c.receive()
	}
}

func (c *caller) send(data []byte) {
	c.Helper()
	if _, err := c.Write(data); err != nil {
		c.Fatal(err)
	}
}

func (c *caller) receive() {
	c.Helper()
	buffer := make([]byte, 64<<10)
	n, err := c.Read(buffer)
	if err != nil {
		c.Fatalf("read: %v", err)
	}
	c.pending = append(c.pending, buffer[:n]...)
}

// next returns the next frame. It is valid until the one that follows.
func (c *caller) next() wire.Frame {
	c.Helper()
	for {
		var frame wire.Frame
		n, err := c.parser.Next(c.pending, &frame)
		if err != nil {
			c.Fatal(err)
		}
		if n > 0 {
			c.pending = c.pending[n:]
			return frame
		}
		c.receive()
	}
}

// request returns the bytes of a request with raw or, where there are arguments,
// encoded ones.
func (c *caller) request(name string, raw []byte, arguments ...any) []byte {
	c.Helper()
	c.lastID++
	frame := wire.Frame{
		Header:     wire.Header{Type: wire.Request, Codec: wire.CodecRaw, CallID: c.lastID},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name),
		Payload:    raw,
	}
	if raw == nil {
		var err error
		if frame.Payload, err = codec.AppendValue(nil, append([]any{}, arguments...)); err != nil {
			c.Fatal(err)
		}
		frame.Codec = wire.CodecMessagePack
	}
	return frame.Append(nil)
}

// wantEcho calls echo and checks what comes back.
func (c *caller) wantEcho(data string) {
	c.Helper()
	c.send(c.request("echo", []byte(data)))
	c.wantReply(c.lastID, data)
}

func (c *caller) wantReply(id uint64, data string) {
	c.Helper()
	frame := c.next()
	if frame.Type != wire.Reply || frame.CallID != id || string(frame.Payload) != data {
		c.Fatalf("%s %d with %d bytes, want the reply to %d with %d", frame.Type, frame.CallID, len(frame.Payload), id, len(data))
	}
}

// wantRefused reads an ERROR of the connection and then its end.
func (c *caller) wantRefused() {
	c.Helper()
	if frame := c.next(); frame.Type != wire.Error || frame.CallID != 0 {
		c.Fatalf("%s %d, want an ERROR of the connection", frame.Type, frame.CallID)
	}
	c.wantEnd()
}

func (c *caller) wantEnd() {
	c.Helper()
	if n, err := io.Copy(io.Discard, c.Conn); n > 0 || isTimeout(err) {
		c.Errorf("read %d bytes, %v, want the end of the connection", n, err)
	}
}

func isTimeout(err error) bool {
	failure, ok := err.(net.Error)
	return ok && failure.Timeout()
}
