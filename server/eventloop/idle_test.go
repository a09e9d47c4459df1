package eventloop_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/eventloop"
)

const idleConnections = 2000

// An idleCaller is a bare socket, which costs this process no memory and no
// goroutine of its own: what is counted is the server's.
type idleCaller int

func connectIdle(t *testing.T, path string) idleCaller {
	t.Helper()
	descriptor, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("%v; this test needs %d descriptors (ulimit -n)", err, 2*idleConnections+100)
	}
	wait := unix.NsecToTimeval(timeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(descriptor, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(descriptor, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	return idleCaller(descriptor)
}

// say sends and reads an answer into reply.
func (c idleCaller) say(t *testing.T, data, reply []byte) []byte {
	t.Helper()
	if _, err := unix.Write(int(c), data); err != nil {
		t.Fatal(err)
	}
	n, err := unix.Read(int(c), reply)
	for err == unix.EINTR {
		n, err = unix.Read(int(c), reply)
	}
	if n <= 0 || err != nil {
		t.Fatalf("read: %d, %v", n, err)
	}
	return reply[:n]
}

// call sends a request, which may be changed, with this id and checks the reply.
func (c idleCaller) call(t *testing.T, request []byte, id uint64, reply []byte) {
	t.Helper()
	header := wire.ParseHeader(request)
	header.CallID = id
	header.Put(request)
	got := wire.ParseHeader(c.say(t, request, reply))
	if got.Type != wire.Reply || got.CallID != id {
		t.Fatalf("%s %d, want the reply to %d", got.Type, got.CallID, id)
	}
}

// A usage is what the process has.
type usage struct{ goroutines, descriptors, bytes int }

func used(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	runtime.GC() // what pools held is gone after the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return usage{runtime.NumGoroutine(), len(list), int(stats.HeapAlloc + stats.StackInuse)}
}

// idle connects that many callers, each of which calls a function with so many bytes,
// and returns what one costs the server while none of them does anything.
func idle(t *testing.T, s *server.Server, function string, payloadBytes int) (goroutines int, bytesEach int) {
	r := serve(t, s, unixAddress(t))
	r.connect().wantEcho("warm")
	before := used(t)
	request := (&caller{TB: t}).request(function, make([]byte, payloadBytes))
	reply := make([]byte, 64<<10)
	callers := make([]idleCaller, idleConnections)
	for i := range callers {
		callers[i] = connectIdle(t, r.address.String())
		callers[i].say(t, hello(), reply)
		callers[i].call(t, request, 1, reply)
	}
	var now usage
	waitFor(t, func() bool {
		former := now
		now = used(t)
		return former.goroutines == now.goroutines
	})
	// All of them are still served.
	for _, c := range callers {
		c.call(t, request, 2, reply)
		unix.Close(int(c))
	}
	waitFor(t, func() bool { return s.Statistics().Connections == 1 })
	r.end()
	return now.goroutines - before.goroutines, (now.bytes - before.bytes) / idleConnections
}

// TestIdleConnections cost no goroutine, and less than two fifths of the memory
// that they do without the event loop.
func TestIdleConnections(t *testing.T) {
	goroutines, bytes := idle(t, newServer(t), "echo", 1)
	_, otherwise := idle(t, newServerWith(t), "echo", 1)
	t.Logf("%d idle connections: %d goroutines; %d bytes each, %d with a goroutine each", idleConnections, goroutines, bytes, otherwise)
	if goroutines > 10 {
		t.Errorf("%d goroutines for %d idle connections", goroutines, idleConnections)
	}
	if bytes > otherwise*2/5 {
		t.Errorf("an idle connection costs %d bytes, %d with a goroutine", bytes, otherwise)
	}
}

// TestIdleAfterLargerCalls: what calls have needed is given back.
func TestIdleAfterLargerCalls(t *testing.T) {
	_, small := idle(t, newServer(t), "echo", 1)
	_, larger := idle(t, newServer(t), "echo", 10_000)
	t.Logf("idle connections cost %d bytes after small calls, %d after larger ones", small, larger)
	if larger > small+1024 {
		t.Errorf("an idle connection costs %d bytes after larger calls, %d otherwise", larger, small)
	}
}

// TestIdleAfterCallsWithContext: nor is anything kept for the contexts of later calls.
func TestIdleAfterCallsWithContext(t *testing.T) {
	_, without := idle(t, newServer(t), "echo", 1)
	s := newServer(t)
	register(t, s, "echo_in_time", func(_ context.Context, data []byte) []byte { return data })
	_, with := idle(t, s, "echo_in_time", 1)
	t.Logf("idle connections cost %d bytes after calls without a context, %d with one", without, with)
	if with > without+512 {
		t.Errorf("an idle connection costs %d bytes after a call with a context, %d otherwise", with, without)
	}
}

// TestHeldCallsReadLittle: a small call takes a small buffer, however many connections
// have one at the same time.
func TestHeldCallsReadLittle(t *testing.T) {
	const held = 200
	s := newServer(t)
	var started sync.WaitGroup
	started.Add(held)
	release := make(chan struct{})
	for i := range held {
		// The first call of each is run by who has read it, and keeps what it was read
		// into.
		register(t, s, fmt.Sprint("hold", i), func(data []byte) []byte { started.Done(); <-release; return data })
	}
	r := serve(t, s, unixAddress(t))
	r.connect().wantEcho("warm")
	callers := make([]idleCaller, held)
	reply := make([]byte, 64<<10)
	for i := range callers {
		callers[i] = connectIdle(t, r.address.String())
		callers[i].say(t, hello(), reply)
	}
	waitFor(t, func() bool { return s.Statistics().Parked == held+1 })
	before := used(t)
	for i, c := range callers {
		if _, err := unix.Write(int(c), (&caller{TB: t}).request(fmt.Sprint("hold", i), []byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	started.Wait()
	each := (used(t).bytes - before.bytes) / held
	close(release)
	for _, c := range callers {
		c.say(t, nil, reply)
		unix.Close(int(c))
	}
	r.end()
	t.Logf("a small call that runs costs %d bytes", each)
	if each > 24<<10 {
		t.Errorf("a small call that runs costs %d bytes", each)
	}
}

// TestStopLeavesNothing: no goroutine and no descriptor is left of a server, whose
// connections were idle, busy, half said or without hello.
func TestStopLeavesNothing(t *testing.T) {
	stopOnce(t) // netpoll starts what stays
	before := used(t)
	for range 5 {
		stopOnce(t)
	}
	waitFor(t, func() bool {
		now := used(t)
		return now.goroutines <= before.goroutines && now.descriptors <= before.descriptors
	})
}

func stopOnce(t *testing.T) {
	t.Helper()
	s := newServerWith(t, server.WithEngine(eventloop.New()), server.WithHelloTimeout(time.Second))
	register(t, s, "pause", func() { time.Sleep(20 * time.Millisecond) })
	r := serve(t, s, unixAddress(t))
	var callers []*caller
	for i := range 40 {
		c := r.dial()
		callers = append(callers, c)
		if i%4 == 0 {
			continue
		}
		c.send(hello())
		c.welcomed()
		switch i % 4 {
		case 1:
			c.send(c.request("echo", []byte("half"))[:30])
		case 2:
			c.send(c.request("pause", nil))
		}
	}
	r.end()
	for _, c := range callers {
		c.Close()
	}
}
