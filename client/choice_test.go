package client_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A server that is slower than its equals gets fewer calls.
func TestLessBusyEndpoint(t *testing.T) {
	slow, quick := newPlace(t, "tcp:127.0.0.1:0"), newPlace(t, "tcp:127.0.0.1:0")
	slow.nap, quick.nap = 40*time.Millisecond, 5*time.Millisecond
	c := newClient(t, slow.address+","+strings.TrimPrefix(quick.address, "tcp:"))
	left := make(chan struct{}, 400)
	for range cap(left) {
		left <- struct{}{}
	}
	close(left)
	done := make(chan error)
	for range 8 {
		go func() {
			var failure error
			for range left {
				failure = errors.Join(failure, c.Call(context.Background(), "work", nil))
			}
			done <- failure
		}()
	}
	for range 8 {
		must(t, <-done)
	}
	if a, b := slow.executed.Load(), quick.executed.Load(); a*2 > b || a == 0 || a+b != 400 {
		t.Errorf("the slow server got %d calls, the other %d", a, b)
	}
}

// A server that has many calls of others gets fewer of a new client, which has been told so.
func TestEndpointThatOthersKeepBusy(t *testing.T) {
	busy, idle := newPlace(t, "tcp:127.0.0.1:0"), newPlace(t, "tcp:127.0.0.1:0")
	calls := 20 * runtime.GOMAXPROCS(0)
	others, done := newClient(t, busy.address), make(chan error, calls)
	for range calls {
		go func() { done <- others.Call(context.Background(), "hold", nil) }()
	}
	eventually(t, func() bool { return busy.held.Load() == int64(calls) }, func() string { return "not all calls have begun" })
	eventually(t, func() bool { return busy.load() > 0 }, func() string { return "the server says that it is idle" })
	c := newClient(t, busy.address+","+strings.TrimPrefix(idle.address, "tcp:"))
	work(t, c, 300)
	if a, b := busy.executed.Load(), idle.executed.Load(); a*3 > b || a+b != 300 {
		t.Errorf("the busy server got %d calls, the other %d", a, b)
	}
	close(busy.holds)
	for range calls {
		must(t, <-done)
	}
	must(t, others.Close())
}

// An endpoint that lacked the function is asked again if no other takes the call.
func TestEndpointThatLackedTheFunctionIsAskedLast(t *testing.T) {
	near, far, c := newPair(t)
	done := begin(context.Background(), c, "echo", nil)
	conn, other := near.serve(), (*peerConn)(nil)
	conn.fail(conn.expect(wire.Request), status.Unimplemented, status.OutcomeNotExecuted)
	other = far.serve()
	other.fail(other.expect(wire.Request), status.Unavailable, status.OutcomeNotExecuted)
	expectFailure(t, wait(t, done).err, status.Unavailable, status.OutcomeNotExecuted)

	done = begin(context.Background(), c, "echo", nil)
	other.fail(other.expect(wire.Request), status.Unavailable, status.OutcomeNotExecuted)
	conn.reply(conn.expect(wire.Request), []byte("by now"))
	expectReply(t, wait(t, done), "by now")
}

// load returns what the server says of its load in a welcome.
func (p *place) load() uint32 {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.address, "tcp:"))
	must(p.t, err)
	defer conn.Close()
	hello := wire.Hello{VersionMin: wire.Version, VersionMax: wire.Version, FrameBytesMax: wire.FrameBytesMax}
	_, err = conn.Write(hello.Append(nil))
	must(p.t, err)
	var welcome wire.Welcome
	for got := make([]byte, 0, wire.HelloBytesMax); ; {
		n, err := conn.Read(got[len(got):cap(got)])
		must(p.t, err)
		got = got[:len(got)+n]
		taken, err := wire.ParseWelcome(got, &welcome)
		must(p.t, err)
		if taken > 0 {
			return welcome.Load
		}
	}
}
