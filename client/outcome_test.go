package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// scripts are the rows of "From event to outcome" that a server decides: each
// gets a connection with one small request on the way.
var scripts = []struct {
	name    string
	play    func(*peerConn)
	code    status.Code
	outcome status.Outcome
}{
	{"the server refuses before it starts the function", func(c *peerConn) {
		c.fail(c.expect(wire.Request), status.Unimplemented, status.OutcomeNotExecuted)
	}, status.Unimplemented, status.OutcomeNotExecuted},
	{"the request was not read", func(c *peerConn) {
		c.awaitUnread()
		c.end()
	}, status.Unavailable, status.OutcomeNotExecuted},
	{"the request was read, then the connection ended", func(c *peerConn) {
		c.expect(wire.Request)
		c.end()
	}, status.Unavailable, status.OutcomeUnknown},
	{"a part of the reply had arrived", func(c *peerConn) {
		frame := replyTo(c.expect(wire.Request), []byte("lost"))
		c.write(frame.Append(nil)[:wire.HeaderBytes+2])
		c.end()
	}, status.Unavailable, status.OutcomeExecutedResultLost},
	{"a part of the reply's header had arrived", func(c *peerConn) {
		frame := replyTo(c.expect(wire.Request), []byte("lost"))
		c.write(frame.Append(nil)[:5])
		c.end()
	}, status.Unavailable, status.OutcomeExecutedResultLost},
	{"less than a reply's type had arrived", func(c *peerConn) {
		frame := replyTo(c.expect(wire.Request), []byte("lost"))
		c.write(frame.Append(nil)[:4])
		c.end()
	}, status.Unavailable, status.OutcomeUnknown},
	{"a part of a large reply had arrived", func(c *peerConn) {
		frame := replyTo(c.expect(wire.Request), make([]byte, 1<<20))
		c.write(frame.Append(nil)[:1<<19])
		c.end()
	}, status.Unavailable, status.OutcomeExecutedResultLost},
	{"a part of an error had arrived", func(c *peerConn) {
		frame := failureOf(c.expect(wire.Request), &status.Error{Code: status.NotFound, Outcome: status.OutcomeExecuted, Message: "lost"})
		c.write(frame.Append(nil)[:wire.HeaderBytes])
		c.end()
	}, status.NotFound, status.OutcomeExecuted},
	{"DRAIN with an id below the call's", func(c *peerConn) {
		request := c.expect(wire.Request)
		c.send(wire.Frame{Header: wire.Header{Type: wire.Drain, CallID: request.CallID - 1}})
	}, status.Unavailable, status.OutcomeNotExecuted},
	{"the function returned an error", func(c *peerConn) {
		c.fail(c.expect(wire.Request), status.NotFound, status.OutcomeExecuted)
	}, status.NotFound, status.OutcomeExecuted},
	{"the function panicked", func(c *peerConn) {
		c.fail(c.expect(wire.Request), status.Internal, status.OutcomeExecuted)
	}, status.Internal, status.OutcomeExecuted},
	{"the result is larger than the caller accepts", func(c *peerConn) {
		c.fail(c.expect(wire.Request), status.ResourceExhausted, status.OutcomeExecutedResultLost)
	}, status.ResourceExhausted, status.OutcomeExecutedResultLost},
	{"the maximum run time passed", func(c *peerConn) {
		c.fail(c.expect(wire.Request), status.DeadlineExceeded, status.OutcomeUnknown)
	}, status.DeadlineExceeded, status.OutcomeUnknown},
	{"a code from a later version", func(c *peerConn) {
		c.fail(c.expect(wire.Request), 42, 9)
	}, status.Unknown, status.OutcomeUnknown},
	{"the reply is in another codec", func(c *peerConn) {
		frame := replyTo(c.expect(wire.Request), []byte{0xc0})
		frame.Codec = wire.CodecMessagePack
		c.send(frame)
	}, status.Internal, status.OutcomeExecutedResultLost},
	{"a reply to a call that was never made", func(c *peerConn) {
		frame := replyTo(c.expect(wire.Request), nil)
		frame.CallID += 1000
		c.send(frame)
	}, status.Internal, status.OutcomeUnknown},
	{"a pong without a ping", func(c *peerConn) {
		c.expect(wire.Request)
		c.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: []byte("12345678")})
	}, status.Internal, status.OutcomeUnknown},
	{"an error without a code", func(c *peerConn) {
		c.fail(c.expect(wire.Request), status.OK, status.OutcomeExecuted)
	}, status.Internal, status.OutcomeUnknown},
	{"an error with a code that never travels", func(c *peerConn) {
		c.fail(c.expect(wire.Request), 100, status.OutcomeExecuted)
	}, status.Internal, status.OutcomeUnknown},
	{"an error that is no MessagePack", func(c *peerConn) {
		frame := failureOf(c.expect(wire.Request), &status.Error{Code: status.NotFound, Outcome: status.OutcomeExecuted})
		frame.Payload = []byte{0xc1}
		c.send(frame)
	}, status.Internal, status.OutcomeUnknown},
	{"a frame that a server does not send", func(c *peerConn) {
		c.send(c.expect(wire.Request))
	}, status.Internal, status.OutcomeUnknown},
	{"an error about the connection", func(c *peerConn) {
		c.expect(wire.Request)
		c.fail(wire.Frame{}, status.InvalidArgument, status.OutcomeUnknown)
	}, status.Unavailable, status.OutcomeUnknown},
	{"file descriptors that nobody agreed to", func(c *peerConn) {
		request := c.expect(wire.Request)
		frame := replyTo(request, nil)
		_, _, err := c.WriteMsgUnix(frame.Append(nil), syscall.UnixRights(0), nil)
		must(c.t, err)
	}, status.Internal, status.OutcomeUnknown},
}

func TestOutcomes(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	for _, script := range scripts {
		t.Run(script.name, func(t *testing.T) {
			p := newPeer(t)
			done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", []byte("x"))
			script.play(p.serve())
			expectFailure(t, wait(t, done).err, script.code, script.outcome)
		})
	}
}

func TestErrorCarriesMessageAndDetails(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(), "echo", nil)
	conn := p.serve()
	conn.send(failureOf(conn.expect(wire.Request), &status.Error{Code: status.NotFound, Outcome: status.OutcomeExecuted,
		Message: "no such key", Details: []status.Detail{{Type: "example.Key", Value: "k"}}}))
	failure := expectFailure(t, wait(t, done).err, status.NotFound, status.OutcomeExecuted)
	if failure.Message != "no such key" || len(failure.Details) != 1 || failure.Details[0].Value != "k" {
		t.Fatalf("got %+v", failure)
	}
	if !errors.Is(failure, status.NotFound) {
		t.Fatal("errors.Is does not find the code")
	}
}

func TestErrorLargerThanTheBuffer(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(), "echo", nil)
	conn := p.serve()
	large := make([]byte, 300<<10)
	conn.send(failureOf(conn.expect(wire.Request), &status.Error{Code: status.NotFound, Outcome: status.OutcomeExecuted,
		Details: []status.Detail{{Type: "example.Large", Value: large}}}))
	failure := expectFailure(t, wait(t, done).err, status.NotFound, status.OutcomeExecuted)
	if len(failure.Details[0].Value.([]byte)) != len(large) {
		t.Fatal("the detail was cut")
	}
}

// With a second call in flight a reset says nothing about either.
func TestResetWithTwoCallsInFlight(t *testing.T) {
	p := newPeer(t)
	c := p.client(client.WithAttempts(1))
	first := begin(context.Background(), c, "echo", []byte("1"))
	conn := p.serve()
	conn.expect(wire.Request)
	second := begin(context.Background(), c, "echo", []byte("2"))
	conn.awaitUnread()
	conn.end()
	expectFailure(t, wait(t, first).err, status.Unavailable, status.OutcomeUnknown)
	expectFailure(t, wait(t, second).err, status.Unavailable, status.OutcomeUnknown)
}

// A CANCEL after the request would be unread although the request was read.
func TestResetAfterCancel(t *testing.T) {
	p := newPeer(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	done := begin(ctx, p.client(client.WithAttempts(1)), "echo", []byte("1"))
	conn := p.serve()
	conn.expect(wire.Request)
	conn.awaitUnread()
	conn.end()
	expectFailure(t, wait(t, done).err, status.DeadlineExceeded, status.OutcomeUnknown)
}

// The server reads nothing of a request that is larger than the socket's buffer.
func TestConnectionBreaksWithinARequest(t *testing.T) {
	p := newPeer(t)
	done := begin(context.Background(), p.client(client.WithAttempts(1)), "echo", make([]byte, 3<<20))
	conn := p.serve()
	conn.awaitUnread()
	conn.end()
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeNotExecuted)
}

func TestMisuseIsNotExecuted(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	go p.serve()
	ctx := context.Background()
	_, err := c.CallRaw(ctx, "echo", make([]byte, wire.FrameBytesMax+1), nil)
	expectFailure(t, err, status.ResourceExhausted, status.OutcomeNotExecuted)
	_, err = c.CallRaw(ctx, "", nil, nil)
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = c.CallRaw(ctx, string(make([]byte, wire.FunctionNameBytesMax+1)), nil, nil)
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = client.Call[any](ctx, c, "echo", make(chan int))
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
	_, err = client.Func1[func(), int](c, "echo")(ctx, nil)
	expectFailure(t, err, status.InvalidArgument, status.OutcomeNotExecuted)
}

func TestResultThatCannotBeDecoded(t *testing.T) {
	for name, payload := range map[string][]byte{"another type": {0xc3}, "cut off": {0xa5, 'x'}, "two values": {1, 2}, "nothing": {}} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			c := p.client()
			go func() {
				conn := p.serve()
				conn.describe(func() int64 { return 0 })
				for range 2 {
					conn.reply(conn.expect(wire.Request), payload)
				}
			}()
			_, err := client.Call[int64](context.Background(), c, "number")
			expectFailure(t, err, status.Internal, status.OutcomeExecutedResultLost)
			_, err = client.Func0[int64](c, "number")(context.Background())
			expectFailure(t, err, status.Internal, status.OutcomeExecutedResultLost)
		})
	}
}

func TestNoServer(t *testing.T) {
	directory := t.TempDir()
	dead := filepath.Join(directory, "dead")
	fd := bindOnly(t, dead)
	defer syscall.Close(fd)
	for name, path := range map[string]string{"no socket": filepath.Join(directory, "none"), "nobody listens": dead} {
		t.Run(name, func(t *testing.T) {
			_, err := newClient(t, "unix:"+path).CallRaw(context.Background(), "echo", nil, nil)
			expectFailure(t, err, status.Unavailable, status.OutcomeNotExecuted)
		})
	}
}

// bindOnly makes a socket in the file system that does not listen.
func bindOnly(t *testing.T, path string) (fd int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	return fd
}

func TestNoPermission(t *testing.T) {
	p := newPeer(t)
	must(t, os.Chmod(p.address[len("unix:"):], 0o600))
	must(t, os.Chmod(filepath.Dir(p.address[len("unix:"):]), 0o711))
	c := p.client()
	done := make(chan error)
	go func() {
		// The thread, which nobody shall use afterwards, becomes another user to
		// the file system.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				done <- err
				return
			}
		} else if err := os.Chmod(p.address[len("unix:"):], 0); err != nil {
			done <- err
			return
		}
		_, err := c.CallRaw(context.Background(), "echo", nil, nil)
		done <- err
	}()
	expectFailure(t, <-done, status.PermissionDenied, status.OutcomeNotExecuted)
}

func TestFullBacklogUntilTheDeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd := bindOnly(t, path)
	defer syscall.Close(fd)
	must(t, syscall.Listen(fd, 0))
	for {
		filler, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		must(t, err)
		defer syscall.Close(filler)
		if err := syscall.Connect(filler, &syscall.SockaddrUnix{Name: path}); errors.Is(err, syscall.EAGAIN) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	got := wait(t, begin(ctx, newClient(t, "unix:"+path), "echo", nil))
	expectFailure(t, got.err, status.DeadlineExceeded, status.OutcomeNotExecuted)
	expectOnTime(t, got.took, 100*time.Millisecond, got.late)
}
