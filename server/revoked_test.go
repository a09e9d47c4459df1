package server_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// A revocable is a connection whose peer has a name. What revokes it goes to revoke.
type revocable struct {
	*net.UnixConn
	revoke chan func(reason error)
}

func (r *revocable) WriteBuffers(buffers net.Buffers) (int64, error) {
	return buffers.WriteTo(r.UnixConn)
}
func (r *revocable) Certainty() transport.Certainty    { return transport.TakenOnly }
func (r *revocable) Secure(context.Context) error      { return nil }
func (r *revocable) Names() []string                   { return []string{"peer"} }
func (r *revocable) OnRevoked(call func(reason error)) { r.revoke <- call }

type revocables struct {
	net.Listener
	revoke chan func(reason error)
}

func (r revocables) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &revocable{conn.(*net.UnixConn), r.revoke}, nil
}

// startRevocable serves s, and returns what revokes each connection that is made.
func startRevocable(t *testing.T, s *server.Server) (path string, revoke chan func(reason error)) {
	t.Helper()
	path, revoke = filepath.Join(t.TempDir(), "s"), make(chan func(reason error), 1)
	under, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, revocables{under, revoke}) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path, revoke
}

var errRevoked = errors.New("the certificate of peer was revoked")

// A caller that is not accepted any more, and reads nothing, holds nothing up: no call of its
// starts any more, and its connection is closed long before a write is given up.
func TestARevokedCallerThatReadsNothing(t *testing.T) {
	s := newServer(t, server.WithWriteTimeout(5*time.Minute))
	started, ended := make(chan struct{}), make(chan struct{})
	register(t, s, "wait", func(ctx context.Context) {
		close(started)
		<-ctx.Done()
		close(ended)
	})
	register(t, s, "large", func(context.Context) []byte { return make([]byte, 4<<20) }, server.MaxConcurrency(1))
	var late atomic.Int64
	register(t, s, "late", func() { late.Add(1) })
	path, revoke := startRevocable(t, s)
	c := connect(t, path)
	c.begin("wait", 0)
	<-started
	c.begin("large", 0)
	c.receive() // the server is writing the rest, of which more is left than the socket takes
	(<-revoke)(errRevoked)
	request := wire.Frame{
		Header:     wire.Header{Type: wire.Request, Codec: wire.CodecMessagePack, CallID: c.lastID + 1},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, "late"), Payload: []byte{0x90},
	}
	_, _ = c.conn.Write(request.Append(nil)) // the connection may be closed by now
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Error("the connection of the revoked caller is still open")
	}
	if late.Load() > 0 {
		t.Error("a call began after its caller was revoked")
	}
}

// Before the welcome, a caller is told nothing that is none: it connects anew, and is refused.
func TestACallerIsRevokedBeforeTheWelcome(t *testing.T) {
	path, revoke := startRevocable(t, newServer(t))
	c := dial(t, path)
	(<-revoke)(errRevoked)
	c.wantEnd()
}
