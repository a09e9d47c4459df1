package eventloop_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/rights/rightstest"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
)

const timeout = 10 * time.Second

// A pair is a connection of the engine and its peer of package net.
type pair struct {
	*testing.T
	another func() pair // over the same
	conn    transport.ParkingConn
	peer    net.Conn
}

// eachTransport runs a test on a local socket and over TCP.
func eachTransport(t *testing.T, test func(p pair)) {
	t.Run("Unix", func(t *testing.T) { test(newUnixPair(t)) })
	t.Run("TCP", func(t *testing.T) { test(newPair(t, open(t, tcp.Transport{}), tcpAddress)) })
}

func newUnixPair(t *testing.T) pair {
	return newPair(t, open(t, unixsocket.Transport{}), unixAddress)
}

func newPair(t *testing.T, through transport.ParkingTransport, newAddress func(*testing.T) string) pair {
	t.Helper()
	a, err := address.Parse(newAddress(t), false)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := through.Listen(t.Context(), a, transport.ListenOptions{GroupID: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	peer, err := net.Dial(listener.Addr().Network(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := through.TakeOver(accepted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		peer.Close()
	})
	peer.SetDeadline(time.Now().Add(timeout))
	return pair{t, func() pair { return newPair(t, through, newAddress) }, conn, peer}
}

// untilTold waits until the engine was told of all that has happened: of another
// connection it is told last.
func (p pair) untilTold() {
	p.Helper()
	last := p.another()
	resumed := last.parkIdle()
	last.send("x")
	last.wantResumed(resumed)
}

// park parks the connection; the channel has a value when it is resumed.
func (p pair) park() <-chan struct{} {
	p.Helper()
	resumed := make(chan struct{}, 1)
	if !p.conn.Park(func() { resumed <- struct{}{} }) {
		p.Fatal("not parked: there is something to read")
	}
	return resumed
}

// parkIdle parks it after events that told of nothing.
func (p pair) parkIdle() <-chan struct{} {
	p.Helper()
	if n, err := p.conn.ReadNow(make([]byte, 1)); n != 0 || err != nil {
		p.Fatalf("ReadNow: %d, %v, want nothing", n, err)
	}
	return p.park()
}

// parkBefore sets a deadline and then parks it like parkIdle, if the machine is that
// quick.
func (p pair) parkBefore(deadline time.Time) (resumed <-chan struct{}, parked bool) {
	p.Helper()
	p.conn.SetReadDeadline(deadline)
	told := make(chan struct{}, 1)
	n, err := p.conn.ReadNow(make([]byte, 1))
	if n == 0 && err == nil && p.conn.Park(func() { told <- struct{}{} }) {
		return told, true
	}
	if time.Now().Before(deadline) {
		p.Fatalf("not parked before the deadline; ReadNow: %d, %v", n, err)
	}
	return nil, false
}

func (p pair) wantResumed(resumed <-chan struct{}) {
	p.Helper()
	select {
	case <-resumed:
	case <-time.After(timeout):
		p.Fatal("the connection was not resumed")
	}
}

func (p pair) send(data string) {
	p.Helper()
	if _, err := p.peer.Write([]byte(data)); err != nil {
		p.Fatal(err)
	}
}

func (p pair) wantRead(want string, bytes int) {
	p.Helper()
	got := make([]byte, bytes)
	n, err := p.conn.ReadNow(got)
	if err != nil || string(got[:n]) != want {
		p.Fatalf("read %q, %v, want %q", got[:n], err, want)
	}
}

func TestParkedUntilBytesCome(t *testing.T) {
	eachTransport(t, func(p pair) {
		for range 1000 {
			resumed := p.parkIdle()
			p.send("x")
			p.wantResumed(resumed)
			p.wantRead("x", 100)
		}
	})
}

func TestParkedUntilThePeerEnds(t *testing.T) {
	eachTransport(t, func(p pair) {
		resumed := p.parkIdle()
		p.peer.Close()
		p.wantResumed(resumed)
		for range 2 {
			if _, err := p.conn.ReadNow(make([]byte, 1)); !errors.Is(err, io.EOF) {
				p.Errorf("ReadNow: %v, want the end", err)
			}
		}
		if p.conn.Park(func() { p.Error("resumed") }) {
			p.Error("parked at the end of the stream")
		}
	})
}

// TestEndAfterBytes: what the peer sent before it ended is read, and the end then
// is not missed.
func TestEndAfterBytes(t *testing.T) {
	eachTransport(t, func(p pair) {
		resumed := p.parkIdle()
		p.send("last")
		p.peer.Close()
		p.wantResumed(resumed)
		if data, err := io.ReadAll(p.conn); err != nil || string(data) != "last" {
			p.Errorf("read %q, %v", data, err)
		}
	})
}

func TestParkedUntilTheDeadline(t *testing.T) {
	for name, set := range map[string]func(pair) <-chan struct{}{
		"set before": func(p pair) <-chan struct{} {
			for length := 20 * time.Millisecond; length < timeout; length *= 2 {
				if resumed, parked := p.parkBefore(time.Now().Add(length)); parked {
					return resumed
				}
			}
			p.Fatal("never parked before the deadline")
			return nil
		},
		"set after": func(p pair) <-chan struct{} {
			resumed := p.parkIdle()
			p.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			return resumed
		},
		"in the past": func(p pair) <-chan struct{} {
			resumed := p.parkIdle()
			p.conn.SetReadDeadline(time.Unix(1, 0))
			return resumed
		},
		"brought forward": func(p pair) <-chan struct{} {
			p.conn.SetReadDeadline(time.Now().Add(time.Hour))
			resumed := p.parkIdle()
			p.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			return resumed
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachTransport(t, func(p pair) {
				p.wantResumed(set(p))
				if _, err := p.conn.ReadNow(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					p.Errorf("ReadNow: %v, want the deadline", err)
				}
				if p.conn.Park(func() { p.Error("resumed") }) {
					p.Error("parked after the deadline")
				}
			})
		})
	}
}

// TestLiftedDeadline: a deadline that was lifted or put off resumes nobody.
func TestLiftedDeadline(t *testing.T) {
	eachTransport(t, func(p pair) {
		// A machine that takes longer than the deadline gets a longer one.
		for length := 30 * time.Millisecond; length < timeout; length *= 2 {
			deadline := time.Now().Add(length)
			resumed, parked := p.parkBefore(deadline)
			p.conn.SetReadDeadline(time.Time{})
			if parked && time.Now().Before(deadline) {
				p.wantNoDeadline(resumed, deadline)
				return
			}
			p = p.another()
		}
		p.Fatal("never lifted in time")
	})
}

// wantNoDeadline waits until a deadline that was lifted has passed.
func (p pair) wantNoDeadline(resumed <-chan struct{}, lifted time.Time) {
	p.Helper()
	select {
	case <-resumed:
		p.Error("resumed by a deadline that was lifted")
	case <-time.After(time.Until(lifted) + 30*time.Millisecond):
	}
	p.send("x")
	p.wantResumed(resumed)
	p.wantRead("x", 100)
}

func TestParkedUntilClosed(t *testing.T) {
	eachTransport(t, func(p pair) {
		resumed := p.parkIdle()
		p.conn.Close()
		p.wantResumed(resumed)
		if _, err := p.conn.ReadNow(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			p.Errorf("ReadNow: %v, want net.ErrClosed", err)
		}
		if p.conn.Park(func() { p.Error("resumed") }) {
			p.Error("parked although it is closed")
		}
	})
}

// TestMoreThanWasAskedFor: what a read left behind is not forgotten.
func TestMoreThanWasAskedFor(t *testing.T) {
	eachTransport(t, func(p pair) {
		resumed := p.parkIdle()
		p.send("abc")
		p.wantResumed(resumed)
		p.wantRead("a", 1)
		p.wantMore()
		p.wantRead("bc", 100)
	})
}

func (p pair) wantMore() {
	p.Helper()
	if p.conn.Park(func() { p.Error("resumed") }) {
		p.Fatal("parked although there is more")
	}
}

// TestDescriptorsEndARead: the kernel ends a read after descriptors; what lies
// behind them, and was told before they were read, is not forgotten either.
func TestDescriptorsEndARead(t *testing.T) {
	p := newUnixPair(t)
	local := p.conn.(transport.LocalConn)
	local.ExpectDescriptors(1)
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	resumed := p.parkIdle()
	if _, _, err := p.peer.(*net.UnixConn).WriteMsgUnix([]byte("with"), unix.UnixRights(int(file.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	p.send("behind")
	p.wantResumed(resumed)
	p.untilTold()
	p.wantRead("with", 100)
	received := local.Received()
	defer received.Close()
	if len(received.Numbers) != 1 || received.Truncated {
		t.Errorf("received %v", received)
	}
	p.wantMore()
	p.wantRead("behind", 100)
}

func TestDescriptorsThatNobodyExpects(t *testing.T) {
	if !rightstest.OnOldKernel(t) {
		return
	}
	p := newUnixPair(t)
	if _, _, err := p.peer.(*net.UnixConn).WriteMsgUnix([]byte("with"), unix.UnixRights(0), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.conn.Read(make([]byte, 100)); !errors.Is(err, transport.ErrDescriptors) {
		t.Errorf("Read: %v, want ErrDescriptors", err)
	}
}

// What the listener has the kernel add to each read is neither taken for descriptors nor left open.
func TestCredentialsAreRefused(t *testing.T) {
	through := open(t, unixsocket.Transport{})
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	rightstest.PassCredentials(t, listener)
	before := rightstest.ProcessDescriptors(t)
	for _, expected := range []int{0, 1} {
		peer, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := through.TakeOver(accepted)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		local := conn.(transport.LocalConn)
		local.ExpectDescriptors(expected)
		peer.Write([]byte("x"))
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("Read with %d descriptors expected: %v", expected, err)
		}
		if received := local.Received(); len(received.Numbers) > 0 || received.Truncated {
			t.Errorf("received %v", received)
		}
	}
	if now := rightstest.ProcessDescriptors(t); now != before {
		t.Errorf("%d descriptors of processes are open, %d before", now, before)
	}
}

// TestResumedOnce: however much happens at once, one goroutine goes on.
func TestResumedOnce(t *testing.T) {
	eachTransport(t, func(p pair) {
		resumed := make(chan struct{}, 10)
		if !p.conn.Park(func() { resumed <- struct{}{} }) {
			p.Fatal("not parked")
		}
		var moved sync.WaitGroup
		moved.Go(func() { p.conn.SetReadDeadline(time.Unix(1, 0)) })
		p.send("x")
		p.peer.Close()
		p.conn.Close()
		moved.Wait()
		p.wantResumed(resumed)
		p.untilTold()
		select {
		case <-resumed:
			p.Error("resumed twice")
		case <-time.After(50 * time.Millisecond):
		}
	})
}

// TestCloseWhileWriting: a writer that waits for a peer that does not read is woken.
func TestCloseWhileWriting(t *testing.T) {
	eachTransport(t, func(p pair) {
		written := make(chan error, 1)
		go func() {
			_, err := p.conn.Write(make([]byte, 64<<20))
			written <- err
		}()
		// It is in the middle of it.
		if _, err := io.ReadFull(p.peer, make([]byte, 1<<20)); err != nil {
			p.Fatal(err)
		}
		p.conn.Close()
		if err := <-written; !errors.Is(err, net.ErrClosed) {
			p.Errorf("Write: %v, want net.ErrClosed", err)
		}
	})
}

// TestBuffersInPieces: buffers that the socket does not take at once are written in
// their order.
func TestBuffersInPieces(t *testing.T) {
	eachTransport(t, func(p pair) {
		buffers := net.Buffers{make([]byte, 100), nil, make([]byte, 3<<20), make([]byte, 7)}
		var want []byte
		for i, buffer := range buffers {
			for j := range buffer {
				buffer[j] = byte(i + j*7)
			}
			want = append(want, buffer...)
		}
		written := make(chan error, 1)
		go func() {
			_, err := p.conn.WriteBuffers(buffers)
			written <- err
		}()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(p.peer, got); err != nil || string(got) != string(want) {
			p.Errorf("what was read is not what was written: %v", err)
		}
		if err := <-written; err != nil {
			p.Error(err)
		}
	})
}
