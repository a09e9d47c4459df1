package server_test

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// Idle connections of these tests would take more than a user may have, if each kept what
// it once used.
const (
	idleConnections  = 300
	idleBytesPerUser = 4 << 20
)

// TestIdleConnectionsUseUpNoOutput: what connections keep for their next replies takes no
// room from those that are read.
func TestIdleConnectionsUseUpNoOutput(t *testing.T) {
	s := newServer(t, server.WithOutputBytes(1<<30, idleBytesPerUser), server.WithFrameBytesMax(3<<20))
	text := strings.Repeat("x", 3<<20)
	register(t, s, "text", func(count int) string { return text[:count] })
	path := start(t, s)
	idle := connectMany(t, path, idleConnections)
	for range 3 { // the reader may have been taken over in one
		for _, c := range idle {
			if _, failure := c.call("text", int64(50_000)); failure != nil {
				t.Fatal(failure)
			}
		}
	}
	other := connect(t, path)
	for _, bytes := range []int64{1, 3 << 20} {
		if text, failure := other.call("text", bytes); failure != nil || int64(len(text.(string))) != bytes {
			t.Errorf("a reply of %d bytes: %v", bytes, failure)
		}
	}
	wantNothingHeld(t, s, append(idle, other))
}

// TestIdleConnectionsUseUpNoInput: what connections that were busy keep to read into takes
// no room from requests.
func TestIdleConnectionsUseUpNoInput(t *testing.T) {
	s := newServer(t, server.WithInputBytes(1<<30, idleBytesPerUser))
	register(t, s, "length", func(text string) int { return len(text) })
	path := start(t, s)
	var idle []*caller
	for range idleConnections {
		c := dial(t, path)
		c.greet(longHello())
		idle = append(idle, c)
	}
	if len(engineOptions()) > 0 {
		waitFor(t, "parked connections to give everything back", func() bool { return s.Statistics().InputBytes == 0 })
	}
	other := connect(t, path)
	if length, failure := other.call("length", strings.Repeat("x", 2<<20)); length != int64(2<<20) {
		t.Errorf("a large request: %v, %v", length, failure)
	}
	wantNothingHeld(t, s, append(idle, other))
}

// longHello fills the first read.
func longHello() wire.Hello {
	greeting := hello()
	greeting.Software = strings.Repeat("x", 3000)
	return greeting
}

// TestSmallCallsRunWhereOthersTakeAll: who has nothing of a budget that others have used up
// is not refused small replies.
func TestSmallCallsRunWhereOthersTakeAll(t *testing.T) {
	const all, perUser = 4 << 20, 2 << 20
	s := newServer(t, server.WithOutputBytes(all, perUser), server.WithFrameBytesMax(perUser/2), server.WithWriteTimeout(testTimeout))
	// Several are a user's share, so that one of which the kernel has taken a part leaves
	// room for less than one more. It takes 4 MiB at most of a connection's.
	const replies, replyBytes = 32, 256 << 10
	reply := make([]byte, replyBytes)
	register(t, s, "large", func([]byte) []byte { return reply }, server.Apart())
	register(t, s, "one", func() int64 { return 1 })
	address := serveTCP(t, s)
	greeting := hello()
	requests := greeting.Append(nil)
	for id := range uint64(replies) {
		requests = append(append(requests, unfinished(id+1, "large", 1)...), 0)
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.4", "127.0.0.5"} {
		dialUnread(t, from, address).Write(requests)
	}
	waitFor(t, "the budget to be used up", func() bool { return s.Statistics().OutputBytes > all*7/8 })
	other := &caller{t: t}
	// A reply for which there is no room may be tried to be kept after some of these.
	for range 200 {
		if answer := other.simpleOn(dialFrom(t, "127.0.0.3", address), `{"f":"one"}`); !answer.OK {
			t.Fatalf("a small call: %+v", answer)
		}
	}
}

// fillShare has a user's share of 8 MiB taken by replies of which the returned caller reads nothing.
func fillShare(t *testing.T, s *server.Server, path string) *caller {
	t.Helper()
	unread := connect(t, path)
	var requests []byte
	for id := range uint64(2 * unreadReplies) {
		requests = append(append(requests, unfinished(id+1, "large", 1)...), 0)
	}
	unread.send(requests)
	waitFor(t, "the share to be used up", func() bool { return s.Statistics().OutputBytes > (unreadReplies-1)*unreadBytes })
	return unread
}

const unreadReplies, unreadBytes = 8, 1 << 20

// serveUnread serves "large", whose replies use up what a user may have.
func serveUnread(t *testing.T, options ...server.Option) *server.Server {
	t.Helper()
	s := newServer(t, append(options, server.WithOutputBytes(1<<30, unreadReplies*unreadBytes))...)
	reply := make([]byte, unreadBytes)
	register(t, s, "large", func([]byte) []byte { return reply }, server.Apart())
	return s
}

// TestSmallCallsRunWhereTheirUserTakesAll: one connection of a user that does not read holds up
// no calls of its others whose replies are small, nor what comes behind a call that is held back.
func TestSmallCallsRunWhereTheirUserTakesAll(t *testing.T) {
	s := serveUnread(t, server.WithWriteTimeout(testTimeout))
	register(t, s, "one", func() int64 { return 1 })
	path := start(t, s)
	other := connect(t, path)
	wantOne := func() {
		t.Helper()
		if value, failure := other.call("one"); value != int64(1) {
			t.Fatalf("a small call: %v, %v", value, failure)
		}
	}
	wantOne()
	unread := fillShare(t, s, path)
	wantOne()
	simple := dial(t, path)
	if answer := simple.simple(`{"f":"one"}`); !answer.OK {
		t.Errorf("a small call of the simple protocol: %+v", answer)
	}
	other.lastID++
	held := other.lastID
	other.send(append(unfinished(held, "large", 1), 0))
	other.send(ping("behind a call that is held back"))
	if frame := other.next(); frame.Type != wire.Pong {
		t.Fatalf("%v, want PONG", frame.Type)
	}
	wantOne()
	other.cancel(held)
	_, _, failure := other.result()
	wantFailure(t, failure, status.Cancelled, status.OutcomeNotExecuted)
	wantNothingHeld(t, s, []*caller{unread, other, simple})
}

// TestResultsThroughMemoryNeedNoRoom: what the ring takes at once does not wait until replies
// to others, which wait for their sockets, have been read.
func TestResultsThroughMemoryNeedNoRoom(t *testing.T) {
	s, g := serveUnread(t, server.WithWriteTimeout(writeTimeoutHoarded)), newGate()
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "middle", func([]byte) []byte { g.wait(); return make([]byte, 30_000) }, server.Apart())
	path := start(t, s)
	c := connectWithMemory(t, path)
	middle := c.Request("middle", nil)
	c.put(&middle)
	<-g.started
	unread := fillShare(t, s, path)
	close(g.release)
	if reply := c.take(); reply.Type != wire.Reply || reply.CallID != middle.CallID {
		t.Errorf("%v for call %d, want the reply to %d", reply.Type, reply.CallID, middle.CallID)
	}
	wantNothingHeld(t, s, []*caller{unread, c.caller})
}

// dialUnread is dialFrom with next to no room for what is not read.
func dialUnread(t *testing.T, from, to string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: testTimeout}
	dialer.Control = func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(socket uintptr) {
			if err := syscall.SetsockoptInt(int(socket), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096); err != nil {
				t.Error(err)
			}
		})
	}
	conn, err := dialer.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestLoopbackIsOneAccount: whoever is on the machine can connect from any of its loopback
// addresses.
func TestLoopbackIsOneAccount(t *testing.T) {
	s := newServer(t, server.WithConnections(100, 2))
	register(t, s, "one", func() int64 { return 1 })
	address := serveLoopback(t, s, func(l net.Listener) net.Listener { return l })
	greeting := hello()
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		dialFrom(t, from, address).Write(greeting.Append(nil))
	}
	waitFor(t, "two to be connected", func() bool { return s.Statistics().Connections == 2 })
	third := &caller{t: t}
	if answer := third.simpleOn(dialFrom(t, "127.0.0.4", address), `{"f":"one"}`); answer.OK || answer.Failure.Code != status.ResourceExhausted || !strings.Contains(answer.Failure.Message, "connections_per_user_max") {
		t.Errorf("a third connection: %+v", answer)
	}
}

// TestNetworkIsOneAccount: whoever has one IPv6 address has a network of them.
func TestNetworkIsOneAccount(t *testing.T) {
	s := newServer(t, server.WithConnections(100, 2))
	register(t, s, "one", func() int64 { return 1 })
	const ofAnother = 9
	address := serveFrom(t, s, func(last byte) net.IP {
		network := byte(1)
		if last == ofAnother {
			network = 2
		}
		return net.IP{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, network, last, 0, 0, 0, 0, 0, 0, last}
	})
	greeting := hello()
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		dialFrom(t, from, address).Write(greeting.Append(nil))
	}
	waitFor(t, "two to be connected", func() bool { return s.Statistics().Connections == 2 })
	third, other := &caller{t: t}, &caller{t: t}
	if answer := third.simpleOn(dialFrom(t, "127.0.0.4", address), `{"f":"one"}`); answer.OK || answer.Failure.Code != status.ResourceExhausted || !strings.Contains(answer.Failure.Message, "network 2001:db8:0:1::/64") {
		t.Errorf("a third connection: %+v", answer)
	}
	if answer := other.simpleOn(dialFrom(t, fmt.Sprintf("127.0.0.%d", ofAnother), address), `{"f":"one"}`); !answer.OK {
		t.Errorf("another network: %+v", answer)
	}
}

// TestHelloIsRefusedForWantOfRoom: and told why.
func TestHelloIsRefusedForWantOfRoom(t *testing.T) {
	const room, pieceBytes = wire.FrameBytesFloor, 3000
	s := newServer(t, server.WithInputBytes(1<<30, room))
	register(t, s, "length", func([]byte) int { return 0 })
	path := start(t, s)
	callers := connectMany(t, path, room/pieceBytes)
	for i, c := range callers {
		c.send(unfinished(1, "length", pieceBytes))
		waitFor(t, "the piece to come", func() bool { return s.Statistics().InputBytes >= int64((i+1)*pieceBytes) })
	}
	late := dial(t, path)
	late.greet(longHello())
	if late.welcome.Status != uint16(status.ResourceExhausted) || !strings.Contains(late.welcome.Refusal, "WithInputBytes") {
		t.Errorf("welcome with status %d: %s", late.welcome.Status, late.welcome.Refusal)
	}
}
