package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/spin"
	"github.com/nearcall/nearcall/status"
)

const (
	// What one peer sends or asks for in these tests, and how many do.
	hoardBytes = wire.FrameBytesMax - 4096
	hoarders   = 100
	// What the server may hold of it: the default of one user, and as much again for
	// what the garbage collector has not found yet, and for what is no request.
	hoardHeapMax = 268435456 + 64<<20
)

// unfinished is a request without its last byte.
func unfinished(id uint64, name string, payloadBytes int) []byte {
	frame := wire.Frame{
		Header:     wire.Header{Type: wire.Request, Codec: wire.CodecRaw, CallID: id},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name),
		Payload:    make([]byte, payloadBytes),
	}
	sent := frame.Append(nil)
	return sent[:len(sent)-1]
}

// sendAll sends to all at the same time and waits until each has taken it.
func sendAll(callers []*caller, data []byte) {
	var sent sync.WaitGroup
	for _, c := range callers {
		sent.Add(1)
		go func() {
			defer sent.Done()
			_, _ = c.conn.Write(data)
		}()
	}
	sent.Wait()
}

func connectMany(t testing.TB, path string, count int) []*caller {
	made := make([]*caller, count)
	for i := range made {
		made[i] = connect(t, path)
	}
	return made
}

// serveHoarded serves functions for those who hoard.
func serveHoarded(t testing.TB, options ...server.Option) (*server.Server, string) {
	t.Helper()
	s := newServer(t, append([]server.Option{server.WithFrameSilence(testTimeout)}, options...)...)
	reply := make([]byte, hoardBytes)
	register(t, s, "large", func([]byte) []byte { return bytes.Clone(reply) })
	register(t, s, "size", func(data []byte) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(len(data))) })
	return s, start(t, s)
}

// wantHeldAtMost checks what the server counts and what the process has.
func wantHeldAtMost(t *testing.T, s *server.Server, counted int64) {
	t.Helper()
	if now := s.Statistics(); now.InputBytes > counted || now.OutputBytes > counted {
		t.Errorf("%d bytes of input and %d of output are counted, want at most %d", now.InputBytes, now.OutputBytes, counted)
	}
	if heap := heapInUse(s); heap > hoardHeapMax {
		t.Errorf("the heap has %d bytes, want at most %d", heap, hoardHeapMax)
	}
}

// heapInUse returns what the process has of memory that is in use.
func heapInUse(s *server.Server) int64 {
	// What a pool has lent out once is found free by the second or third collection.
	for range 3 {
		runtime.GC()
	}
	return int64(s.Statistics().HeapBytes)
}

// wantNothingHeld waits until all that was counted is given back.
func wantNothingHeld(t *testing.T, s *server.Server, callers []*caller) {
	t.Helper()
	for _, c := range callers {
		c.conn.Close()
	}
	waitFor(t, "all bytes to be given back", func() bool {
		now := s.Statistics()
		return now.Connections == 0 && now.InputBytes == 0 && now.OutputBytes == 0
	})
}

// firstFrame reads the header of the next frame, and no more of a reply.
func (c *caller) firstFrame() (header wire.Header, failure *status.Error) {
	c.t.Helper()
	var bytes [wire.HeaderBytes]byte
	if _, err := io.ReadFull(c.conn, bytes[:]); err != nil {
		c.t.Fatal(err)
	}
	header = wire.ParseHeader(bytes[:])
	if header.Type != wire.Error {
		return header, nil
	}
	payload := make([]byte, header.Length)
	if _, err := io.ReadFull(c.conn, payload); err != nil {
		c.t.Fatal(err)
	}
	_, _, failure = c.decode(wire.Frame{Header: header, Payload: payload})
	return header, failure
}

// TestUnfinishedFramesAreBounded: what has come of requests is bounded for all
// connections of a user. Who is refused can go on.
func TestUnfinishedFramesAreBounded(t *testing.T) {
	s, path := serveHoarded(t)
	callers := connectMany(t, path, hoarders)
	sendAll(callers, unfinished(1, "size", hoardBytes))
	wantHeldAtMost(t, s, wire.InputBytesPerUserMax)
	refused := 0
	for _, c := range callers {
		c.send([]byte{0})
		header, failure := c.firstFrame()
		if header.CallID != 1 {
			t.Fatalf("an answer to call %d", header.CallID)
		}
		if failure != nil {
			refused++
			wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
			if !strings.Contains(failure.Message, "input_bytes_per_user_max") || !strings.Contains(failure.Message, "WithInputBytes") {
				t.Fatalf("the message does not name the limit and the option: %s", failure.Message)
			}
			c.send(append(unfinished(2, "size", 1), 0))
			if header, failure := c.firstFrame(); header.CallID != 2 || failure != nil {
				t.Fatalf("the next call %d: %v", header.CallID, failure)
			}
		}
	}
	if refused == 0 || refused == hoarders {
		t.Errorf("%d of %d were refused, want some", refused, hoarders)
	}
	wantNothingHeld(t, s, callers)
}

// TestUnreadRepliesAreBounded: so is what waits to be read. Requests are held back, and
// refused before they run while nothing is read.
func TestUnreadRepliesAreBounded(t *testing.T) {
	s, path := serveHoarded(t, server.WithWriteTimeout(writeTimeoutHoarded))
	callers := connectMany(t, path, hoarders)
	// What a function is expected to return is known when it has been called.
	first := connect(t, path)
	first.send(append(unfinished(1, "large", 1), 0))
	if reply := first.next(); len(reply.Payload) != hoardBytes {
		t.Fatalf("a reply of %d bytes, want %d", len(reply.Payload), hoardBytes)
	}
	sendAll(callers, append(unfinished(1, "large", 1), 0))
	waitFor(t, "the room to be taken", func() bool {
		return s.Statistics().Functions["large"].Calls >= wire.OutputBytesPerUserMax/wire.FrameBytesMax-1
	})
	wantHeldAtMost(t, s, wire.OutputBytesPerUserMax)
	refused := 0
	for _, c := range callers {
		_, failure := c.firstFrame()
		switch {
		case failure == nil:
		case failure.Code != status.ResourceExhausted || failure.Outcome == status.OutcomeUnknown || !strings.Contains(failure.Message, "WithOutputBytes"):
			t.Fatal(failure)
		case failure.Outcome == status.OutcomeNotExecuted:
			refused++
		}
	}
	if refused == 0 {
		t.Error("no call was refused, want those for which there is no room")
	}
	wantNothingHeld(t, s, append(callers, first))
}

// writeTimeoutHoarded is longer than the test takes to see what is held, so that nobody
// has lost the connection by then.
const writeTimeoutHoarded = 10 * time.Second

// TestManyLargeRepliesAreAllRead: those who read get what they asked for, however many
// there are, whether their calls begin or end at the same time.
func TestManyLargeRepliesAreAllRead(t *testing.T) {
	const readers = 190
	s, g := newServer(t, server.WithWriteTimeout(testTimeout)), newGate()
	reply := make([]byte, hoardBytes)
	register(t, s, "large", func([]byte) []byte { return bytes.Clone(reply) })
	register(t, s, "together", func([]byte) []byte { g.wait(); return bytes.Clone(reply) }, server.Apart())
	path := start(t, s)
	for _, function := range []string{"large", "together"} {
		callers := connectMany(t, path, readers)
		sendAll(callers, append(unfinished(1, function, 1), 0))
		if function == "together" {
			for range readers {
				<-g.started
			}
			close(g.release)
		}
		var read sync.WaitGroup
		for _, c := range callers {
			read.Go(func() {
				header, failure := c.firstFrame()
				if failure != nil {
					t.Errorf("%s: %v", function, failure)
				} else if n, err := io.CopyN(io.Discard, c.conn, int64(header.Length)); err != nil {
					t.Errorf("%s: %d bytes of %d: %v", function, n, header.Length, err)
				}
			})
		}
		read.Wait()
		wantNothingHeld(t, s, callers)
	}
}

// TestResultsWaitWithinBounds: what waits for room is bounded as well, to twice what one user
// may have, so that the process holds three times as much.
func TestResultsWaitWithinBounds(t *testing.T) {
	const room, calls, waiting = 16 << 20, 20, 2
	s, g := newServer(t, server.WithOutputBytes(1<<30, room), server.WithFrameBytesMax(room/4*3), server.WithWriteTimeout(testTimeout)), newGate()
	reply := make([]byte, room-4096)
	register(t, s, "together", func([]byte) []byte { g.wait(); return bytes.Clone(reply) }, server.Apart())
	callers := connectMany(t, start(t, s), calls)
	sendAll(callers, append(unfinished(1, "together", 1), 0))
	for range calls {
		<-g.started
	}
	before := heapInUse(s)
	close(g.release)
	results, proceed := make(chan *status.Error, calls), make(chan struct{})
	var read sync.WaitGroup
	for _, c := range callers {
		read.Go(func() {
			header, failure := c.firstFrame()
			results <- failure
			if failure != nil {
				return
			}
			<-proceed
			if _, err := io.CopyN(io.Discard, c.conn, int64(header.Length)); err != nil {
				t.Error(err)
			}
		})
	}
	lost := 0
	for range calls - waiting {
		if failure := <-results; failure != nil {
			wantFailure(t, failure, status.ResourceExhausted, status.OutcomeExecutedResultLost)
			if want := "is no room for " + strconv.Itoa(len(reply)) + " bytes"; !strings.Contains(failure.Message, want) {
				t.Errorf("%v: want it to say %s", failure, want)
			}
			if want := "WithOutputBytes raises them to at most " + strconv.Itoa(wire.OutputBytesPerUserMaxCeiling); !strings.Contains(failure.Message, want) {
				t.Errorf("%v: want it to say %s", failure, want)
			}
			lost++
		}
	}
	if lost != calls-waiting-1 {
		t.Errorf("%d results are lost, want all but one that is written and %d that wait", lost, waiting)
	}
	if held := heapInUse(s) - before; held > (1+waiting)*room+room/2 {
		t.Errorf("the heap has %d bytes more, want at most those of %d results", held, 1+waiting)
	}
	close(proceed)
	for range waiting {
		if failure := <-results; failure != nil {
			t.Errorf("a result that waited: %v", failure)
		}
	}
	read.Wait()
	wantNothingHeld(t, s, callers)
}

// TestWaitingRequestsAreBounded: requests that wait for their turn are copies.
func TestWaitingRequestsAreBounded(t *testing.T) {
	const bytes, room = 100_000, 10
	s, g := newServer(t, server.WithInputBytes(1<<30, room*bytes)), newGate()
	register(t, s, "wait", func([]byte) []byte { g.wait(); return nil }, server.MaxConcurrency(1))
	c := connect(t, start(t, s))
	for id := range uint64(room + 5) {
		c.lastID = id + 1
		c.send(append(unfinished(c.lastID, "wait", bytes), 0))
	}
	refused := 0
	for range 5 {
		_, _, failure := c.result()
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
		refused++
	}
	close(g.release)
	for range room + 5 - refused {
		if frame := c.next(); frame.Type == wire.Error {
			_, _, failure := c.decode(frame)
			wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
		}
	}
	wantNothingHeld(t, s, []*caller{c})
}

// A roomy value takes many times the one byte that an empty struct may come in.
type roomy struct {
	One, Two, Three, Four, Five, Six, Seven, Eight string
	Of                                             *roomy
}

// TestDecodedArgumentsAreBounded: a byte may be hundreds of bytes when it is decoded.
func TestDecodedArgumentsAreBounded(t *testing.T) {
	const room, many, few = 4 << 20, 100_000, 1_000
	s, g := newServer(t, server.WithInputBytes(1<<30, room)), newGate()
	register(t, s, "lists", func(list []roomy) int { return len(list) })
	register(t, s, "pointers", func(list []*roomy) int { return len(list) }, server.MaxConcurrency(1))
	register(t, s, "maps", func(all map[int32]roomy) int { return len(all) })
	register(t, s, "texts", func(all map[string]int64) int { return len(all) })
	register(t, s, "any_of_texts", func(all map[string]any) int { return len(all) })
	register(t, s, "any", func(list []any) int { return len(list) })
	register(t, s, "leave", func([]roomy) { leave() })
	register(t, s, "panic", func([]roomy) { panic("here") })
	register(t, s, "wait", func(list []roomy) { g.wait() })
	path := start(t, s)
	c := connect(t, path)
	empty := map[string]any{}
	values := map[string]func(int) any{
		"maps":         func(n int) any { return numbered(n, func(i int) int64 { return int64(i) }, any(empty)) },
		"texts":        func(n int) any { return numbered(n, strconv.Itoa, any(int64(1))) },
		"any_of_texts": func(n int) any { return numbered(n, strconv.Itoa, any(empty)) },
	}
	for _, name := range []string{"lists", "pointers", "maps", "texts", "any_of_texts", "any"} {
		value := values[name]
		if value == nil {
			value = func(n int) any { return slices.Repeat([]any{empty}, n) }
		}
		_, failure := c.call(name, value(many))
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
		if failure == nil || !strings.Contains(failure.Message, "input_bytes_per_user_max") {
			t.Errorf("%s: %v names no limit", name, failure)
		}
		if length, failure := c.call(name, value(few)); length != int64(few) {
			t.Errorf("%s: %v, %v", name, length, failure)
		}
	}
	for range 100 { // each gives back what it took
		_, failure := c.call("leave", slices.Repeat([]any{empty}, few))
		wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
		_, failure = c.call("panic", slices.Repeat([]any{empty}, few))
		wantFailure(t, failure, status.Internal, status.OutcomeExecuted)
	}
	c.begin("wait", 0, slices.Repeat([]any{empty}, few))
	<-g.started
	if held := s.Statistics().InputBytes; held < few*64 {
		t.Errorf("%d bytes are counted while the function runs", held)
	}
	close(g.release)
	c.next()
	wantNothingHeld(t, s, []*caller{c})
}

// numbered returns a map of n keys.
func numbered[K comparable](n int, key func(int) K, value any) map[K]any {
	all := map[K]any{}
	for i := range n {
		all[key(i)] = value
	}
	return all
}

// TestTakenOverRequestsAreCounted: a call that the watch took from the reader keeps the
// buffer that its arguments lie in.
func TestTakenOverRequestsAreCounted(t *testing.T) {
	s, g := newServer(t), newGate()
	register(t, s, "wait", func([]byte) []byte { g.wait(); return nil })
	register(t, s, "one", func() int64 { return 1 })
	c := connect(t, start(t, s))
	c.lastID = 1
	c.send(append(unfinished(1, "wait", hoardBytes), 0))
	<-g.started
	if _, failure := c.call("one"); failure != nil {
		t.Fatal(failure)
	}
	if held := s.Statistics().InputBytes; held < hoardBytes {
		t.Errorf("%d bytes are counted, want at least %d", held, hoardBytes)
	}
	close(g.release)
	c.next()
	wantNothingHeld(t, s, []*caller{c})
}

// TestSimpleRequestsAreBounded: the simple protocol counts as any other.
func TestSimpleRequestsAreBounded(t *testing.T) {
	s := newServer(t, server.WithInputBytes(1<<30, wire.FrameBytesFloor))
	register(t, s, "length", func(text string) int { return len(text) })
	path := start(t, s)
	c := dial(t, path)
	if answer := c.simple(`{"f":"length","a":["` + strings.Repeat("x", 1000) + `"]}`); !answer.OK {
		t.Errorf("a small request: %+v", answer)
	}
	answer := c.simple(`{"f":"length","a":["` + strings.Repeat("x", 2*wire.FrameBytesFloor) + `"]}`)
	if answer.OK || answer.Failure.Code != status.ResourceExhausted || answer.Failure.Outcome != "not executed" {
		t.Errorf("a large request: %+v", answer)
	}
	wantNothingHeld(t, s, []*caller{c})
}

// TestRequestsThroughMemoryAreBounded: what is taken out of a ring is a copy.
func TestRequestsThroughMemoryAreBounded(t *testing.T) {
	const bytes = 1 << 20
	s := newServer(t, server.WithInputBytes(1<<30, bytes/2), server.WithSpin(spin.Off))
	register(t, s, "echo", func(data []byte) []byte { return data })
	c := connectWithMemory(t, start(t, s))
	for range 3 {
		large := c.Request("echo", make([]byte, bytes))
		c.put(&large)
		_, _, failure := c.decode(c.takeFrame())
		wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
		small := c.Request("echo", make([]byte, 1000))
		c.put(&small)
		if reply := c.takeFrame(); reply.Type != wire.Reply || reply.CallID != c.LastID {
			t.Fatalf("%v for call %d, want the reply to %d", reply.Type, reply.CallID, c.LastID)
		}
	}
	wantNothingHeld(t, s, []*caller{c.caller})
}

// TestRefusedPayloadIsNeverRun: what still comes of a refused request is dropped, also by a
// reader that has taken the reading over from a slow call out of the ring.
func TestRefusedPayloadIsNeverRun(t *testing.T) {
	const cut = wire.FrameBytesFloor * 4
	s, hold := newServer(t, server.WithInputBytes(1<<30, wire.FrameBytesFloor), server.WithSpin(spin.Dedicated)), newGate()
	var ran atomic.Int64
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "hidden", func([]byte) []byte { ran.Add(1); return nil })
	register(t, s, "hold", func([]byte) []byte { hold.wait(); return nil })
	c := connectWithMemory(t, start(t, s))
	large := c.Request("echo", nil)
	hidden := wire.Frame{Header: wire.Header{Type: wire.Request, Codec: wire.CodecRaw, CallID: large.CallID + 100}, Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, "hidden")}
	large.Payload = append(make([]byte, cut-len(large.Append(nil))), hidden.Append(nil)...)
	sent := large.Append(nil)
	c.send(sent[:cut])
	_, _, failure := c.decode(c.takeFrame())
	wantFailure(t, failure, status.ResourceExhausted, status.OutcomeNotExecuted)
	waitFor(t, "what was sent to be read", func() bool { return unsentBytes(t, c.Caller.Conn) == 0 })
	slow := c.Request("hold", nil)
	c.put(&slow)
	<-hold.started
	defer close(hold.release)
	for _, next := range []func(*wire.Frame){c.put, func(request *wire.Frame) {
		c.send(append(sent[cut:], request.Append(nil)...))
	}} {
		request := c.Request("echo", []byte("x"))
		next(&request)
		if reply := c.takeFrame(); reply.Type != wire.Reply || reply.CallID != request.CallID {
			t.Fatalf("%v for call %d, want the reply to %d", reply.Type, reply.CallID, request.CallID)
		}
	}
	if calls := ran.Load(); calls != 0 {
		t.Errorf("what lies in a refused payload was run %d times", calls)
	}
}

// TestOneAddressTakesNothingFromOthers: peers over TCP have shares by their addresses.
func TestOneAddressTakesNothingFromOthers(t *testing.T) {
	s := newServer(t, server.WithInputBytes(8<<20, 2<<20), server.WithConnections(100, 10))
	register(t, s, "length", func(text string) int { return len(text) })
	address := serveTCP(t, s)
	for range 10 {
		attacker := dialFrom(t, "127.0.0.2", address)
		greeting := hello()
		attacker.Write(append(greeting.Append(nil), unfinished(1, "length", 1<<20)...))
	}
	waitFor(t, "the attacker's requests to come", func() bool { return s.Statistics().InputBytes > 1<<20 })
	tooMany := &caller{t: t}
	if answer := tooMany.simpleOn(dialFrom(t, "127.0.0.2", address), `{"f":"length","a":[""]}`); answer.OK || answer.Failure.Code != status.ResourceExhausted || !strings.Contains(answer.Failure.Message, "192.0.2.2") {
		t.Errorf("one connection too many: %+v", answer)
	}
	other := &caller{t: t}
	if answer := other.simpleOn(dialFrom(t, "127.0.0.3", address), `{"f":"length","a":["`+strings.Repeat("x", 1<<19)+`"]}`); !answer.OK {
		t.Errorf("another address: %+v", answer)
	}
}

// serveTCP serves peers that are told apart by their addresses.
func serveTCP(t *testing.T, s *server.Server) (address string) {
	t.Helper()
	return serveFrom(t, s, func(last byte) net.IP { return net.IPv4(192, 0, 2, last) })
}

// serveFrom is serveTCP with the addresses that peers seem to have.
func serveFrom(t *testing.T, s *server.Server, from func(last byte) net.IP) (address string) {
	t.Helper()
	return serveLoopback(t, s, func(l net.Listener) net.Listener { return remoteListener{l, from} })
}

func serveLoopback(t *testing.T, s *server.Server, wrap func(net.Listener) net.Listener) (address string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	listener, err := s.Listen(ctx, "tcp:127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, wrap(listener)) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// A remoteListener shows peers of 127.0.0.N, but for N = 1, as if they came from
// elsewhere: those of the loopback network are one machine.
type remoteListener struct {
	net.Listener
	from func(last byte) net.IP
}

func (l remoteListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from := *conn.RemoteAddr().(*net.TCPAddr)
	if last := from.IP.To4()[3]; last > 1 {
		from.IP = l.from(last)
	}
	return remoteConn{conn, &from}, nil
}

type remoteConn struct {
	net.Conn
	from net.Addr
}

func (c remoteConn) RemoteAddr() net.Addr { return c.from }

// dialFrom connects from an address of the loopback network.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: testTimeout}
	conn, err := dialer.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestOperatorsCanConnect: whoever runs the server gets in when others have all that
// they may have.
func TestOperatorsCanConnect(t *testing.T) {
	s := newServer(t, server.WithConnections(8, 8))
	register(t, s, "one", func() int64 { return 1 })
	address := serveTCP(t, s)
	greeting := hello()
	for range 7 {
		dialFrom(t, "127.0.0.2", address).Write(greeting.Append(nil))
	}
	waitFor(t, "the others to be connected", func() bool { return s.Statistics().Connections == 7 })
	other := &caller{t: t}
	if answer := other.simpleOn(dialFrom(t, "127.0.0.3", address), `{"f":"one"}`); answer.OK || !strings.Contains(answer.Failure.Message, "connections_max") {
		t.Errorf("an eighth connection of others: %+v", answer)
	}
	if answer := dial(t, start(t, s)).simple(`{"f":"one"}`); !answer.OK {
		t.Errorf("a connection of the server's own user: %+v", answer)
	}
}
