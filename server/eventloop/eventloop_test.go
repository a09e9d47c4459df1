package eventloop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
)

// eachAddress runs a test on a local socket and over TCP.
func eachAddress(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("Unix", func(t *testing.T) { test(t, unixAddress(t)) })
	t.Run("TCP", func(t *testing.T) { test(t, "tcp:127.0.0.1:0") })
}

func TestCalls(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serve(t, newServer(t), address)
		defer r.end()
		c := r.connect()
		for _, size := range []int{0, 1, 100, 5000, 70000, 1 << 20, 3 << 20, 10} {
			for range 3 {
				c.wantEcho(strings.Repeat("d", size))
			}
		}
	})
}

// TestByteByByte: a message that comes in pieces is one, whatever the connection
// does between them.
func TestByteByByte(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serve(t, newServer(t), address)
		defer r.end()
		c := r.dial()
		for _, b := range hello() {
			c.send([]byte{b})
		}
		c.welcomed()
		for range 3 {
			for _, b := range c.request("echo", []byte("in pieces")) {
				c.send([]byte{b})
			}
			c.wantReply(c.lastID, "in pieces")
		}
	})
}

// TestLargeFrameInPieces: pieces of all sizes, so that buffers grow and are given
// back between them.
func TestLargeFrameInPieces(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serve(t, newServer(t), address)
		defer r.end()
		c := r.connect()
		data := strings.Repeat("0123456789abcdef", 20000)
		for _, piece := range []int{700, 2047, 2048, 2049, 33000, 100000} {
			frame := c.request("echo", []byte(data))
			for len(frame) > 0 {
				n := min(piece, len(frame))
				c.send(frame[:n])
				frame = frame[n:]
			}
			c.wantReply(c.lastID, data)
			c.wantEcho("small")
		}
	})
}

// smallBufferBytes is what a connection that waits for the rest of a frame keeps.
const smallBufferBytes = 2048

// TestPiecesOfMany: connections that borrow and give back at the same time get their
// own bytes.
func TestPiecesOfMany(t *testing.T) {
	r := serve(t, newServer(t), unixAddress(t))
	t.Cleanup(r.end)
	for n := range 8 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := (&running{TB: t, Server: r.Server, address: r.address}).connect()
			data := strings.Repeat(string(rune('a'+n)), 50_000)
			for range 50 {
				// A small buffer is filled to its end by what has come of the second.
				first := c.request("echo", []byte(data)[:3000])
				firstID := c.lastID
				second := c.request("echo", []byte(data))
				c.send(append(first, second[:smallBufferBytes]...))
				c.wantReply(firstID, data[:3000])
				c.send(second[smallBufferBytes:])
				c.wantReply(c.lastID, data)
			}
		})
	}
}

// TestManyFramesAtOnce: the last of many frames is cut off, again and again.
func TestManyFramesAtOnce(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serve(t, newServer(t), address)
		defer r.end()
		c := r.connect()
		var all []byte
		const calls = 2000
		for range calls {
			all = append(all, c.request("echo", []byte("many"))...)
		}
		go func() {
			for len(all) > 0 {
				n := min(33333, len(all))
				c.Write(all[:n])
				all = all[n:]
			}
		}()
		answered := make(map[uint64]bool)
		for range calls {
			answered[c.next().CallID] = true
		}
		if len(answered) != calls {
			t.Errorf("%d of %d calls were answered", len(answered), calls)
		}
	})
}

// TestSlowWriter: a frame that stops has a deadline although nobody waits for it.
func TestSlowWriter(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serve(t, newServer(t, server.WithFrameSilence(50*time.Millisecond)), address)
		defer r.end()
		c := r.connect()
		c.wantEcho("before")
		frame := c.request("echo", []byte("slow"))
		c.send(frame[:len(frame)-1])
		c.wantRefused()
	})
}

// TestSilentCaller: who never says hello is not waited for.
func TestSilentCaller(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serve(t, newServer(t, server.WithHelloTimeout(50*time.Millisecond)), address)
		defer r.end()
		r.dial().wantEnd()
	})
}

func TestHostileLengths(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serve(t, newServer(t), address)
		defer r.end()
		c := r.connect()
		header := wire.Header{Type: wire.Request, Codec: wire.CodecRaw, CallID: 1, Length: 1<<32 - 1}
		c.send(header.Append(nil))
		c.wantRefused()
		r.connect().wantEcho("another")
	})
}

// TestEndInAFrame: a connection that ends in the middle of a frame is gone, and its
// calls with it.
func TestEndInAFrame(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		s := newServer(t)
		ended := make(chan struct{})
		started := make(chan struct{})
		register(t, s, "wait", func(ctx context.Context) {
			close(started)
			<-ctx.Done()
			close(ended)
		})
		r := serve(t, s, address)
		defer r.end()
		c := r.connect()
		c.send(c.request("wait", nil))
		<-started
		c.send(c.request("echo", []byte("half"))[:20])
		c.Close()
		select {
		case <-ended:
		case <-time.After(timeout):
			t.Error("the context of the call did not end")
		}
		waitFor(t, func() bool { return s.Statistics().Connections == 0 })
	})
}

// waitFor waits for what has no event.
func waitFor(t testing.TB, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen in time")
		}
	}
}

func TestCancel(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		s := newServer(t)
		started := make(chan struct{})
		register(t, s, "wait", func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		})
		r := serve(t, s, address)
		defer r.end()
		c := r.connect()
		c.send(c.request("wait", nil))
		<-started
		cancel := wire.Frame{Header: wire.Header{Type: wire.Cancel, CallID: c.lastID}}
		c.send(cancel.Append(nil))
		if frame := c.next(); frame.Type != wire.Error || frame.CallID != c.lastID {
			t.Errorf("%s %d, want the ERROR of the call", frame.Type, frame.CallID)
		}
		c.wantEcho("after")
	})
}

// TestSlowFunction: it holds up neither its connection nor another.
func TestSlowFunction(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		s := newServer(t)
		release := make(chan struct{})
		register(t, s, "hold", func() { <-release })
		r := serve(t, s, address)
		defer r.end()
		c, other := r.connect(), r.connect()
		held := c.request("hold", nil)
		id := c.lastID
		c.send(held)
		other.wantEcho("another")
		c.wantEcho("the same")
		close(release)
		if frame := c.next(); frame.Type != wire.Reply || frame.CallID != id {
			t.Errorf("%s %d, want the reply to %d", frame.Type, frame.CallID, id)
		}
	})
}

// TestDrain: calls in flight are answered, by functions of connections that are
// parked meanwhile; idle connections are told.
func TestDrain(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		s := newServer(t)
		var running sync.WaitGroup
		release := make(chan struct{})
		register(t, s, "hold", func() int64 { running.Done(); <-release; return 1 })
		r := serve(t, s, address)
		idle := r.connect()
		idle.wantEcho("before")
		busy := make([]*caller, 20)
		running.Add(len(busy))
		for i := range busy {
			busy[i] = r.connect()
			busy[i].send(busy[i].request("hold", nil))
		}
		running.Wait()
		r.stop()
		for _, c := range append(busy, idle) {
			if frame := c.next(); frame.Type != wire.Drain {
				t.Fatalf("%s, want DRAIN", frame.Type)
			}
		}
		idle.wantEnd()
		close(release)
		for _, c := range busy {
			if frame := c.next(); frame.Type != wire.Reply {
				t.Fatalf("%s, want REPLY", frame.Type)
			}
			c.wantEnd()
		}
		if err := <-r.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// TestPeerThatDoesNotRead loses its connection, and holds up nobody before.
func TestPeerThatDoesNotRead(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		s := newServer(t, server.WithWriteTimeout(100*time.Millisecond))
		register(t, s, "fill", func(count int64) []byte { return make([]byte, count) })
		r := serve(t, s, address)
		defer r.end()
		c := r.connect()
		go func() {
			for range 100 {
				if _, err := c.Write(c.request("fill", nil, int64(1<<20))); err != nil {
					return
				}
			}
		}()
		r.connect().wantEcho("another")
		waitFor(t, func() bool { return s.Statistics().Connections == 1 })
	})
}

// socketBytes is what the kernel keeps, about, for each way of each end of a connection
// to listenNarrow.
const socketBytes = 64 << 10

// listenNarrow has connections for which the kernel keeps little, also over TCP, where
// else the machine's settings say how much.
func listenNarrow(t *testing.T, address string) net.Listener {
	t.Helper()
	network, target, _ := strings.Cut(address, ":")
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var failures []error
		err := socket.Control(func(descriptor uintptr) {
			for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
				failures = append(failures, unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, option, socketBytes))
			}
		})
		return errors.Join(append(failures, err)...)
	}}
	listener, err := config.Listen(t.Context(), network, target)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// narrow is the same for the caller's end.
func (c *caller) narrow() {
	c.Helper()
	socket := c.Conn.(interface {
		SetReadBuffer(bytes int) error
		SetWriteBuffer(bytes int) error
	})
	if err := errors.Join(socket.SetReadBuffer(socketBytes), socket.SetWriteBuffer(socketBytes)); err != nil {
		c.Fatal(err)
	}
}

// TestFlood: what a caller sends faster than it takes answers stays in its socket.
func TestFlood(t *testing.T) {
	eachAddress(t, func(t *testing.T, address string) {
		r := serveOn(t, newServer(t), listenNarrow(t, address))
		defer r.end()
		c := r.connect()
		c.narrow()
		c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		data := make([]byte, 32<<10)
		sent := 0
		for {
			n, err := c.Write(c.request("echo", data))
			sent += n
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes: %v, want the deadline", sent, err)
			}
		}
		// The kernel's buffers on both ways, and what may be pending.
		if sent > 2<<20 {
			t.Errorf("%d bytes were taken from a caller that does not read", sent)
		}
		r.connect().wantEcho("another")
		c.Close()
	})
}

// TestSharedMemory: a busy connection is given memory, sleeps and is woken.
func TestSharedMemory(t *testing.T) {
	s := newServer(t, server.WithSharedMemoryAfter(1))
	r := serve(t, s, unixAddress(t))
	defer r.end()
	c, err := client.New("unix:" + r.address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo := func() {
		t.Helper()
		var got []byte
		if err := c.Call(t.Context(), "echo", &got, []byte("x")); err != nil || string(got) != "x" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	for range 500 {
		echo()
	}
	if s.Statistics().SharedMemoryTotal != 1 {
		t.Error("no memory was given")
	}
	for range 20 {
		time.Sleep(5 * time.Millisecond) // both sides fall asleep
		echo()
	}
}

// TestFiles pass as they do without the event loop.
func TestFiles(t *testing.T) {
	s := newServer(t, server.WithFileDescriptors(nil))
	register(t, s, "same", func(file *os.File) *os.File { return file })
	r := serve(t, s, unixAddress(t))
	defer r.end()
	c, err := client.New("unix:" + r.address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 50 {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		var got *os.File
		if err := c.Call(t.Context(), "same", &got, file); err != nil {
			t.Fatal(err)
		}
		file.Close()
		got.Close()
	}
}
