package client_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

func TestHello(t *testing.T) {
	p := newPeer(t)
	c := p.client(client.WithName("tester/1"), client.WithFrameBytesMax(100_000))
	done := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.reply(conn.expect(wire.Request), nil)
	expectReply(t, wait(t, done), "")
	hello := conn.hello
	if hello.Software != "tester/1" || hello.FrameBytesMax != 100_000 || hello.ProcessID != uint32(os.Getpid()) ||
		hello.Offered != wire.FeatureSharedClock|wire.FeatureSharedMemory|wire.FeatureDescriptors|wire.FeatureDescriptions|wire.FeaturePackedLists|wire.FeatureStores|wire.FeatureAsks|wire.FeatureDirections || hello.ValueBytesMax != 0 || hello.Required != 0 || hello.ClockNs == 0 {
		t.Fatalf("got %+v", hello)
	}
}

func TestNewDoesNotConnect(t *testing.T) {
	newClient(t, "unix:"+t.TempDir()+"/none")
}

func TestWrongOptionsAndAddresses(t *testing.T) {
	for name, make := range map[string]func() (*client.Client, error){
		"scheme":     func() (*client.Client, error) { return client.New("http://x") },
		"abstract":   func() (*client.Client, error) { return client.New("unix:@x") },
		"timeout":    func() (*client.Client, error) { return client.New("unix:/x", client.WithTimeout(0)) },
		"attempts":   func() (*client.Client, error) { return client.New("unix:/x", client.WithAttempts(0)) },
		"frame":      func() (*client.Client, error) { return client.New("unix:/x", client.WithFrameBytesMax(10)) },
		"drift":      func() (*client.Client, error) { return client.New("unix:/x", client.WithDrift(7)) },
		"connecting": func() (*client.Client, error) { return client.New("unix:/x", client.WithConnectTimeout(-1)) },
		"name": func() (*client.Client, error) {
			return client.New("unix:/x", client.WithName(strings.Repeat("x", 300)))
		},
	} {
		_, err := make()
		if err == nil {
			t.Fatalf("%s: accepted", name)
		}
		expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	}
}

func TestWelcomes(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*wire.Welcome)
		code   status.Code
		text   string
	}{
		"refused": {func(w *wire.Welcome) {
			*w = wire.Welcome{Status: uint16(status.PermissionDenied), Refusal: "user 7 is not allowed"}
		}, status.PermissionDenied, "user 7 is not allowed"},
		"refused without a word": {func(w *wire.Welcome) { *w = wire.Welcome{Status: 400} }, status.Unknown, "did not say why"},
		"another version":        {func(w *wire.Welcome) { w.Version = 2 }, status.Internal, "version 2"},
		"a feature too many":     {func(w *wire.Welcome) { w.Accepted |= wire.FeatureStreams }, status.Internal, "not offered"},
		"frames too small":       {func(w *wire.Welcome) { w.FrameBytesMax = 1 }, status.Internal, "largest frame"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			row.change(&p.welcome)
			done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", nil)
			p.serve()
			failure := expectFailure(t, wait(t, done).err, row.code, status.OutcomeNotExecuted)
			if !strings.Contains(failure.Message, row.text) {
				t.Fatalf("%q does not say %q", failure.Message, row.text)
			}
		})
	}
}

func TestServerOfAnotherProtocol(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(), "echo", nil)
	p.accept().write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	expectFailure(t, wait(t, done).err, status.Internal, status.OutcomeNotExecuted)
}

// The welcome may come in pieces, and frames right behind it.
func TestWelcomeInPieces(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(), "echo", nil)
	conn := p.accept()
	conn.readHello()
	ping := wire.Frame{Header: wire.Header{Type: wire.Ping}, Payload: []byte("at once")}
	for _, b := range ping.Append(p.welcome.Append(nil)) {
		conn.write([]byte{b})
	}
	for range 2 {
		switch frame := conn.next(); frame.Type {
		case wire.Pong:
			if string(frame.Payload) != "at once" {
				t.Fatalf("PONG with %q", frame.Payload)
			}
		default:
			conn.reply(frame, nil)
		}
	}
	expectReply(t, wait(t, done), "")
}

// A process that was stopped must not hold up a call that another one would answer. Each
// connection is given more time than the one before, for servers that are slow.
func TestWelcomeThatDoesNotCome(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", nil)
	var former time.Duration
	for range 2 {
		conn := p.accept()
		conn.readHello()
		began := time.Now()
		conn.write(p.welcome.Append(nil)[:3])
		conn.expectEnd()
		if silence := time.Since(began); silence < former*3/2 {
			t.Fatalf("gave up after %v, and before that after %v", silence, former)
		} else {
			former = silence
		}
	}
	conn := p.serve()
	conn.reply(conn.expect(wire.Request), nil)
	expectReply(t, wait(t, done), "")
}

// The caller learns who serves from the kernel, before it sends a byte.
func TestServerUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test sets up a server of another user and must run as root")
	}
	p := newPeer(t)
	path := strings.TrimPrefix(p.address, "unix:")
	must(t, os.Chown(path[:len(path)-2], 12345, -1))
	listenAs(t, path, 54321)
	expectRefused := func(c *client.Client) {
		t.Helper()
		_, err := c.CallRaw(context.Background(), "echo", nil, nil)
		failure := expectFailure(t, err, status.PermissionDenied, status.OutcomeNotExecuted)
		if !strings.Contains(failure.Message, "54321") {
			t.Fatalf("%q does not name the user", failure.Message)
		}
	}
	expectRefused(p.client())
	expectRefused(p.client(client.WithServerUsers(1, 2)))
	expectReached := func(c *client.Client) {
		t.Helper()
		_, err := c.CallRaw(shortContext(t), "echo", nil, nil)
		expectFailure(t, err, status.DeadlineExceeded, status.OutcomeNotExecuted)
	}
	expectReached(p.client(client.WithServerUsers(1, 54321)))
	expectReached(p.client(client.WithAnyServerUser()))
	must(t, os.Chown(path[:len(path)-2], 54321, -1))
	expectReached(p.client())
}

// listenAs replaces the socket at path by one whose server has another user id
// and never answers.
func listenAs(t *testing.T, path string, userID int) {
	t.Helper()
	must(t, os.Remove(path))
	fd := bindOnly(t, path)
	t.Cleanup(func() { syscall.Close(fd) })
	must(t, os.Chmod(path, 0o777))
	failed := make(chan error)
	go func() {
		// Credentials are those of the thread that listens; it ends with this
		// goroutine.
		lockThreadAs(userID, func() { failed <- syscall.Listen(fd, 16) }, func(err error) { failed <- err })
	}()
	must(t, <-failed)
}
