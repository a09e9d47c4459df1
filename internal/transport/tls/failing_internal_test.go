package tls

import (
	"bytes"
	cryptotls "crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// A readersTurn stands between crypto/tls and the sink. Once it is armed, the goroutine that reads
// comes round after every record, and the socket fails after the first of them.
type readersTurn struct {
	*sink
	socket *net.TCPConn
	armed  bool
}

// Write implements net.Conn.
func (r *readersTurn) Write(b []byte) (int, error) {
	n, err := r.sink.Write(b)
	if r.armed {
		_ = r.sink.flush()
		_ = r.socket.CloseWrite()
	}
	return n, err
}

// The goroutine that reads may send the first record of what a writer is still sealing. If the
// socket fails then, the writer must not say that nothing was taken: the peer may have got whole
// requests, and they would be sent again.
func TestWhatTheReaderHasSentWasTaken(t *testing.T) {
	socket, server, config := agreeing(t)
	caller := newCaller(socket, config)
	turn := &readersTurn{sink: &caller.sink, socket: socket}
	caller.session = cryptotls.Client(turn, config)
	if err := secureBoth(t, caller, server); err != nil {
		t.Fatal(err)
	}
	turn.armed = true
	data := bytes.Repeat([]byte("request "), 4<<10) // two records
	taken, err := caller.WriteNow(data)
	got, _ := io.ReadAll(server)
	if len(got) == 0 || len(got) >= len(data) {
		t.Fatalf("%d bytes of %d arrived; the test wants the first record", len(got), len(data))
	}
	if taken < len(got) {
		t.Errorf("%d bytes were taken (%v), and %d have arrived", taken, err, len(got))
	}
	if taken, err := caller.WriteNow(data); taken != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the next write takes %d bytes (%v), want none and EPIPE", taken, err)
	}
}

// If nobody has sent anything of what was sealed, nothing was taken.
func TestNothingIsTakenByASocketThatHasFailed(t *testing.T) {
	socket, server, config := agreeing(t)
	caller := newCaller(socket, config)
	if err := secureBoth(t, caller, server); err != nil {
		t.Fatal(err)
	}
	if err := socket.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if taken, err := caller.WriteNow(make([]byte, 32<<10)); taken != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%d bytes were taken (%v), want none and EPIPE", taken, err)
	}
}

// What has arrived can be read although nothing can be sent any more, also if it is the reader that
// finds that out.
func TestAnswersAreReadAfterSendingHasFailed(t *testing.T) {
	socket, server, config := agreeing(t)
	caller := newCaller(socket, config)
	if err := secureBoth(t, caller, server); err != nil {
		t.Fatal(err)
	}
	answers := make([]byte, 64<<10) // several records
	if _, err := server.Write(answers); err != nil {
		t.Fatal(err)
	}
	if err := socket.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := caller.sink.Write([]byte("a request")); err != nil { // sealed, and not sent yet
		t.Fatal(err)
	}
	if n, err := io.ReadFull(caller, make([]byte, len(answers))); err != nil {
		t.Errorf("%d bytes of %d were read: %v", n, len(answers), err)
	}
	if err := caller.sink.writable(); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the writer is told %v, want EPIPE", err)
	}
}

// agreeing returns the socket of a caller, the server's end, which has not agreed on keys yet, and
// the caller's configuration.
func agreeing(t *testing.T) (socket *net.TCPConn, server *Conn, config *cryptotls.Config) {
	t.Helper()
	folder := t.TempDir()
	if err := authority.Write(folder); err != nil {
		t.Fatal(err)
	}
	listening, err := NewListening(ServerFiles{Certificate: filepath.Join(folder, "server.pem"), Key: filepath.Join(folder, "server.key")})
	if err != nil {
		t.Fatal(err)
	}
	calling := CallingFrom(Files{Authorities: filepath.Join(folder, "ca.pem")})
	if config, err = calling.configFor(address.Address{Network: "tls", Host: "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	accepting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer accepting.Close()
	dialled, err := net.Dial("tcp", accepting.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := accepting.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, conn := range []net.Conn{dialled, accepted} {
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return dialled.(*net.TCPConn), newServer(accepted, listening), config
}

// secureBoth lets both ends agree on keys.
func secureBoth(t *testing.T, caller, server *Conn) error {
	t.Helper()
	agreed := make(chan error, 1)
	go func() { agreed <- server.Secure(t.Context()) }()
	return errors.Join(caller.Secure(t.Context()), <-agreed)
}
