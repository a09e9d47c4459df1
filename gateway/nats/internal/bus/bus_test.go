package bus_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/transporttest"
	"github.com/nearcall/nearcall/internal/wire"
)

// patience is for what ends at once.
const patience = 30 * time.Second

// A pair is a transport from one hub to another. Its addresses look like those of TCP, because
// those of the bus are no text that users write.
type pair struct{ from, to *bus.Hub }

var _ transport.Transport = pair{}

var ports struct {
	sync.Mutex
	last int
}

// Listen implements transport.Transport.
func (p pair) Listen(_ context.Context, a address.Address, _ transport.ListenOptions) (net.Listener, error) {
	host, port, err := net.SplitHostPort(a.Target)
	if err != nil {
		return nil, err
	}
	if port == "0" {
		ports.Lock()
		ports.last++
		port = strconv.Itoa(ports.last)
		ports.Unlock()
	}
	name := net.JoinHostPort(host, port)
	listener, err := p.to.Listen(name)
	return named{listener, name}, err
}

// Dial implements transport.Transport.
func (p pair) Dial(ctx context.Context, a address.Address) (net.Conn, error) {
	return p.from.Dial(ctx, p.to.Instance(), a.Target)
}

// Wrap implements transport.Transport.
func (pair) Wrap(conn net.Conn) net.Conn { return conn }

type named struct {
	net.Listener
	name string
}

func (n named) Addr() net.Addr { return target(n.name) }

type target string

func (target) Network() string  { return "tcp" }
func (t target) String() string { return string(t) }

func anyPort(*testing.T) string { return "tcp:127.0.0.1:0" }

func TestContractOfTransports(t *testing.T) {
	n := new(network)
	transporttest.Run(t, pair{n.join(t, bus.Config{}).hub, n.join(t, bus.Config{}).hub}, anyPort)
}

// A hub may dial itself.
func TestContractWithOneHub(t *testing.T) {
	n := new(network)
	one := n.join(t, bus.Config{WindowBytes: 64 << 10, MessageBytes: 1000}).hub
	transporttest.Run(t, pair{one, one}, anyPort)
}

// connect returns both ends of a connection.
func connect(t testing.TB, from, to *bus.Hub) (caller, server *bus.Conn) {
	t.Helper()
	listener, err := to.Listen("served")
	must(t, err)
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			accepted <- conn
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dialled, err := from.Dial(ctx, to.Instance(), "served")
	must(t, err)
	conn := <-accepted
	t.Cleanup(func() {
		dialled.Close()
		conn.Close()
	})
	return dialled.(*bus.Conn), conn.(*bus.Conn)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDialFails(t *testing.T) {
	n := new(network)
	from, to := n.join(t, bus.Config{}), n.join(t, bus.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := from.hub.Dial(ctx, to.hub.Instance(), "none"); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("a server that is not there: %v", err)
	}
	instance := to.hub.Instance()
	to.leave()
	if _, err := from.hub.Dial(ctx, instance, "none"); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("a hub that is not there: %v", err)
	}
	if _, err := from.hub.Dial(ctx, "nonsense", "none"); err == nil {
		t.Error("dialled what is no hub")
	}
	from.hub.Close()
	if _, err := from.hub.Dial(ctx, instance, "none"); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("a hub that was closed dials: %v", err)
	}
	if _, err := from.hub.Listen("any"); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("a hub that was closed listens: %v", err)
	}
	if from.hub.Streams() != 0 {
		t.Errorf("%d streams are left", from.hub.Streams())
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, config := range map[string]bus.Config{
		"prefix": {Prefix: "a b"}, "window": {WindowBytes: 1}, "messages": {MessageBytes: -1}, "name": {Name: strings.Repeat("x", 256)},
	} {
		if _, err := bus.New(config, &member{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The end that closes says how much it has read, so that the other one knows what was not
// delivered.
func TestCloseSaysWhatWasRead(t *testing.T) {
	n := new(network)
	caller, server := connect(t, n.join(t, bus.Config{}).hub, n.join(t, bus.Config{}).hub)
	_, err := caller.Write([]byte("0123456789"))
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, 4))
	must(t, err)
	_, err = server.Write([]byte("answer"))
	must(t, err)
	server.Close()
	if got, err := io.ReadAll(caller); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	if offset, known := caller.UndeliveredFrom(); !known || offset != 4 {
		t.Errorf("nothing was delivered from %d on (%v), want 4", offset, known)
	}
	if _, err := caller.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("writing where nobody reads: %v", err)
	}
}

// The engine may deliver an OPEN twice, and late. The refusal of the second one ends the connection,
// and says nothing of the bytes of the first one, which were read.
func TestAnOpenComesTwice(t *testing.T) {
	n := new(network)
	from, to := n.join(t, bus.Config{}), n.join(t, bus.Config{})
	caller, server := connect(t, from.hub, to.hub)
	_, err := caller.Write([]byte("request"))
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, 7))
	must(t, err)
	messages, answers := caller.Subjects()
	stream := messages[strings.LastIndex(messages, ".")+1:]
	open := append([]byte{1, 1}, make([]byte, 22)...) // version 1, OPEN
	open = append(append(open, 6), "served"...)
	must(t, from.Publish(strings.TrimSuffix(to.hub.Subject(), ">")+stream, answers+"x", append(open, 0)))
	caller.SetReadDeadline(time.Now().Add(patience))
	var lost *bus.Lost
	if _, err := caller.Read(make([]byte, 1)); !errors.As(err, &lost) || !strings.Contains(lost.Text, `no server "served"`) {
		t.Errorf("%v, want the refusal", err)
	}
	if offset, known := caller.UndeliveredFrom(); known {
		t.Errorf("nothing was delivered from %d on, and 7 bytes were read", offset)
	}
}

// What the medium takes is asked for each message. If it takes no bytes at all, writing fails.
func TestMediumTakesLess(t *testing.T) {
	n := new(network)
	from := n.join(t, bus.Config{})
	caller, server := connect(t, from.hub, n.join(t, bus.Config{}).hub)
	from.messageBytes.Store(3)
	from.largest.Store(0)
	_, err := caller.Write([]byte("request"))
	must(t, err)
	_, err = io.ReadFull(server, make([]byte, 7))
	must(t, err)
	const headerBytes = 24
	if largest := from.largest.Load(); largest != headerBytes+3 {
		t.Errorf("a message of %d bytes was published, want %d at most", largest, headerBytes+3)
	}
	from.messageBytes.Store(-1)
	var lost *bus.Lost
	if taken, err := caller.Write([]byte("request")); taken != 0 || !errors.As(err, &lost) {
		t.Errorf("%d bytes were taken: %v", taken, err)
	}
}

// A RESET has 512 bytes of words at most, also if it names a server.
func TestTheReasonOfARefusalIsBounded(t *testing.T) {
	n := new(network)
	to := n.join(t, bus.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := n.join(t, bus.Config{}).hub.Dial(ctx, to.hub.Instance(), strings.Repeat("\x01", 255))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	const headerBytes = 24
	if largest := to.largest.Load(); largest != headerBytes+512 {
		t.Errorf("a message of %d bytes was published, want %d", largest, headerBytes+512)
	}
}

// CloseWrite ends one direction, and the other goes on.
func TestHalfClose(t *testing.T) {
	n := new(network)
	caller, server := connect(t, n.join(t, bus.Config{}).hub, n.join(t, bus.Config{}).hub)
	_, err := caller.Write([]byte("question"))
	must(t, err)
	must(t, caller.CloseWrite())
	if got, err := io.ReadAll(server); err != nil || string(got) != "question" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = server.Write([]byte("answer"))
	must(t, err)
	server.Close()
	if got, err := io.ReadAll(caller); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := caller.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing after CloseWrite: %v", err)
	}
}

// Bytes that are sent to a hub that has vanished were not delivered, and the connection ends at once.
// An end that sends nothing more finds out by asking.
func TestPeerVanishes(t *testing.T) {
	for name, more := range map[string]bool{"Sending": true, "Waiting": false} {
		t.Run(name, func(t *testing.T) {
			n := new(network)
			to := n.join(t, bus.Config{})
			caller, server := connect(t, n.join(t, bus.Config{}).hub, to.hub)
			_, err := caller.Write([]byte("question"))
			must(t, err)
			_, err = io.ReadFull(server, make([]byte, 8))
			must(t, err)
			to.leave()
			if more {
				_, err = caller.Write([]byte("another"))
				must(t, err)
			}
			began := time.Now()
			caller.SetReadDeadline(began.Add(patience))
			_, err = caller.Read(make([]byte, 1))
			var lost *bus.Lost
			if !errors.As(err, &lost) {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			if offset, known := caller.UndeliveredFrom(); known != more || more && offset != 8 {
				t.Errorf("nothing was delivered from %d on (%v)", offset, known)
			}
		})
	}
}

// A peer that reads gives room for more, however much is sent.
func TestMoreThanTheWindow(t *testing.T) {
	n := new(network)
	caller, server := connect(t, n.join(t, bus.Config{WindowBytes: 64 << 10}).hub, n.join(t, bus.Config{WindowBytes: 128 << 10}).hub)
	const bytesCount = 5 << 20
	for _, way := range [][2]*bus.Conn{{caller, server}, {server, caller}} {
		go way[0].Write(make([]byte, bytesCount))
		if _, err := io.ReadFull(way[1], make([]byte, bytesCount)); err != nil {
			t.Fatal(err)
		}
	}
	held, window := server.Held()
	if held != 0 || window != 128<<10 {
		t.Errorf("%d bytes are held in a window of %d", held, window)
	}
}

// Limits of one peer and of all.
func TestStreamsAreLimited(t *testing.T) {
	n := new(network)
	from, to := n.join(t, bus.Config{}), n.join(t, bus.Config{})
	listener, err := to.hub.Listen("served")
	must(t, err)
	go accept(listener)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range wire.BusStreamsPerPeerMax {
		if _, err := from.hub.Dial(ctx, to.hub.Instance(), "served"); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if _, err := from.hub.Dial(ctx, to.hub.Instance(), "served"); err == nil || !strings.Contains(err.Error(), "bus_streams_per_peer_max") {
		t.Errorf("one more than there may be: %v", err)
	}
	if _, err := n.join(t, bus.Config{}).hub.Dial(ctx, to.hub.Instance(), "served"); err != nil {
		t.Errorf("another hub: %v", err)
	}
}

// accept accepts and keeps connections until the listener is closed.
func accept(listener net.Listener) {
	for {
		if _, err := listener.Accept(); err != nil {
			return
		}
	}
}

// streamBytesMax is what a connection may take at each end while nothing is on its way.
const streamBytesMax = 2 << 10

func TestIdleStreamsTakeLittle(t *testing.T) {
	n := new(network)
	to := n.join(t, bus.Config{})
	listener, err := to.hub.Listen("served")
	must(t, err)
	before := heapBytes()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	hubs := wire.BusStreamsMax / wire.BusStreamsPerPeerMax
	for range hubs {
		from := n.join(t, bus.Config{})
		for range wire.BusStreamsPerPeerMax {
			_, err := from.hub.Dial(ctx, to.hub.Instance(), "served")
			must(t, err)
			_, err = listener.Accept()
			must(t, err)
		}
	}
	if _, err := n.join(t, bus.Config{}).hub.Dial(ctx, to.hub.Instance(), "served"); err == nil || !strings.Contains(err.Error(), "bus_streams_max") {
		t.Errorf("one more than there may be: %v", err)
	}
	each := (heapBytes() - before) / int64(2*hubs*wire.BusStreamsPerPeerMax)
	t.Logf("%d bytes for each end of %d connections", each, hubs*wire.BusStreamsPerPeerMax)
	if each > streamBytesMax {
		t.Errorf("%d bytes for each end, at most %d", each, streamBytesMax)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

// Small messages that nobody reads take little more memory than their bytes.
func TestSmallMessagesTakeLittle(t *testing.T) {
	n := new(network)
	const window = 64 << 10
	caller, server := connect(t, n.join(t, bus.Config{}).hub, n.join(t, bus.Config{WindowBytes: window}).hub)
	for range window {
		_, err := caller.Write([]byte{1})
		must(t, err)
	}
	for held, _ := server.Held(); held < window; held, _ = server.Held() {
		runtime.Gosched()
	}
	if memory := server.HeldMemory(); memory > window+window/8 {
		t.Errorf("%d bytes take %d", window, memory)
	}
}
