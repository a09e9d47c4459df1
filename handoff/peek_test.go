//go:build unix

package handoff_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must(t, err)
}

// untilNewline is content with a line.
func untilNewline(data []byte) (bool, error) { return strings.Contains(string(data), "\n"), nil }

// A seen function reports, for events, how many bytes there are.
func seen(reports chan<- int, enough func([]byte) (bool, error)) func([]byte) (bool, error) {
	return func(data []byte) (bool, error) {
		reports <- len(data)
		return enough(data)
	}
}

func TestPeekConsumesNothing(t *testing.T) {
	client, served := tcpPair(t)
	send(t, client, "line\nrest")
	for range 2 {
		data, err := handoff.Peek(t.Context(), served, 0, untilNewline)
		if err != nil || !strings.HasPrefix(string(data), "line\n") {
			t.Fatalf("got %q, %v", data, err)
		}
	}
	must(t, client.CloseWrite())
	if all, err := io.ReadAll(served); err != nil || string(all) != "line\nrest" {
		t.Fatalf("read %q, %v", all, err)
	}
}

// One segment at a time: the next is sent when the one before was looked at.
func TestPeekWaitsForSegments(t *testing.T) {
	client, served := tcpPair(t)
	segments := []string{"a", "bc", strings.Repeat("d", 5000), strings.Repeat("e", 20000), "\n"}
	reports := make(chan int, 64)
	go func() {
		sent := 0
		for _, segment := range segments {
			_, _ = io.WriteString(client, segment)
			for sent += len(segment); <-reports < sent; {
			}
		}
	}()
	data, err := handoff.Peek(t.Context(), served, 0, seen(reports, untilNewline))
	if want := strings.Join(segments, ""); err != nil || string(data) != want {
		t.Fatalf("%d bytes, %v; want %d", len(data), err, len(want))
	}
}

func TestPeekOnUnixSocket(t *testing.T) {
	listener, err := net.Listen("unix", t.TempDir()+"/s")
	must(t, err)
	defer listener.Close()
	client, err := net.Dial("unix", listener.Addr().String())
	must(t, err)
	defer client.Close()
	served, err := listener.Accept()
	must(t, err)
	defer served.Close()
	send(t, client, "half")
	must(t, client.(*net.UnixConn).CloseWrite())
	data, err := handoff.Peek(t.Context(), served.(*net.UnixConn), 0, untilNewline)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(data) != "half" {
		t.Fatalf("got %q, %v", data, err)
	}
}

// The end of the input shows in no read while bytes before it are unread.
func TestPeekSeesTheEndBehindUnreadBytes(t *testing.T) {
	for name, row := range map[string]struct {
		text  string
		end   func(*net.TCPConn) error
		wants error
	}{
		"behind bytes":  {"half", (*net.TCPConn).CloseWrite, io.ErrUnexpectedEOF},
		"closed":        {"half", (*net.TCPConn).Close, io.ErrUnexpectedEOF},
		"without bytes": {"", (*net.TCPConn).CloseWrite, io.EOF},
		"reset": {"", func(c *net.TCPConn) error {
			return errors.Join(c.SetLinger(0), c.Close())
		}, syscall.ECONNRESET},
	} {
		t.Run(name+", before", func(t *testing.T) {
			client, served := tcpPair(t)
			send(t, client, row.text)
			must(t, row.end(client))
			expectEnd(t, served, row.text, row.wants, nil)
		})
		t.Run(name+", while it waits", func(t *testing.T) {
			client, served := tcpPair(t)
			send(t, client, "x"+row.text)
			var first [1]byte
			_, err := io.ReadFull(served, first[:])
			must(t, err)
			expectEnd(t, served, row.text, row.wants, func() { must(t, row.end(client)) })
		})
	}
}

// expectEnd peeks without a deadline of its own; end happens once it waits.
func expectEnd(t *testing.T, served *net.TCPConn, text string, wants error, end func()) {
	t.Helper()
	begin := time.Now()
	if end != nil {
		timer := time.AfterFunc(20*time.Millisecond, end)
		defer timer.Stop()
	}
	data, err := handoff.Peek(t.Context(), served, 0, untilNewline)
	if !errors.Is(err, wants) || string(data) != text {
		t.Errorf("got %q, %v; want %q, %v", data, err, text, wants)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v: the end was not noticed", took)
	}
	var failure *handoff.Error
	if !errors.As(err, &failure) || failure.Address != served.RemoteAddr().String() {
		t.Errorf("the error is %#v", err)
	}
}

func TestPeekEndsByDeadline(t *testing.T) {
	for _, text := range []string{"", "half"} {
		client, served := tcpPair(t)
		send(t, client, text)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		data, err := handoff.Peek(ctx, served, 0, untilNewline)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || string(data) != text {
			t.Fatalf("got %q, %v", data, err)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the error is %v", err)
		}
		// No deadline is left behind.
		send(t, client, "\n")
		if data, err := handoff.Peek(t.Context(), served, 0, untilNewline); err != nil || string(data) != text+"\n" {
			t.Fatalf("afterwards %q, %v", data, err)
		}
		must(t, client.Close())
		if all, err := io.ReadAll(served); err != nil || string(all) != text+"\n" {
			t.Fatalf("read %q, %v", all, err)
		}
	}
}

func TestPeekEndsWhenCancelled(t *testing.T) {
	client, served := tcpPair(t)
	send(t, client, "half")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := handoff.Peek(ctx, served, 0, func([]byte) (bool, error) {
		cancel()
		return false, nil
	})
	var timeout net.Error
	if !errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("got %v", err)
	}
	if _, err := handoff.Peek(ctx, served, 0, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("then %v", err)
	}
	if data, err := handoff.Peek(t.Context(), served, 0, nil); err != nil || string(data) != "half" {
		t.Fatalf("then %q, %v", data, err)
	}
}

// While a client is slow nobody spins, although its bytes stay readable.
func TestPeekWaitsWithoutSpinning(t *testing.T) {
	client, served := tcpPair(t)
	send(t, client, "half")
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	asked, before := 0, processorTime(t)
	_, err := handoff.Peek(ctx, served, 0, func([]byte) (bool, error) {
		asked++
		return false, nil
	})
	if used := processorTime(t) - before; used > 200*time.Millisecond || asked != 1 || err == nil {
		t.Fatalf("it asked %d times and used %v of the processor; %v", asked, used, err)
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestPeekLimit(t *testing.T) {
	client, served := tcpPair(t)
	send(t, client, "0123456789")
	never := func([]byte) (bool, error) { return false, nil }
	if data, err := handoff.Peek(t.Context(), served, 10, never); !errors.Is(err, handoff.ErrTooLarge) || len(data) != 10 {
		t.Fatalf("got %q, %v", data, err)
	}
	data, err := handoff.Peek(t.Context(), served, 10, func(data []byte) (bool, error) { return len(data) == 10, nil })
	if err != nil || len(data) != 10 {
		t.Fatalf("got %q, %v", data, err)
	}
}

var errMine = errors.New("not for me")

func TestPeekReturnsTheErrorOfEnough(t *testing.T) {
	client, served := tcpPair(t)
	send(t, client, "x")
	data, err := handoff.Peek(t.Context(), served, 0, func([]byte) (bool, error) { return false, errMine })
	if !errors.Is(err, errMine) || string(data) != "x" {
		t.Fatalf("got %q, %v", data, err)
	}
}

func TestPeekOnAClosedConnection(t *testing.T) {
	_, served := tcpPair(t)
	must(t, served.Close())
	if _, err := handoff.Peek(t.Context(), served, 0, nil); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}
