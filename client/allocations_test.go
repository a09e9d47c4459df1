//go:build !race

package client_test

// Under the race detector sync.Pool drops items at random, so that a call may well
// allocate: what these tests count is true without it only.

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
)

func TestAllocations(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	conn := make(chan *peerConn)
	go func() { conn <- p.serve() }()
	done := begin(context.Background(), c, "echo", nil)
	fixed := <-conn
	fixed.reply(fixed.expect(wire.Request), nil)
	expectReply(t, wait(t, done), "")
	go fixed.answerInPlace()

	ctx := context.Background()
	in, out := make([]byte, 64), make([]byte, 0, 64)
	expectNoAllocations(t, "raw", func() error {
		_, err := c.CallRaw(ctx, "echo", in, out)
		return err
	})
	number := client.Func1[int64, int64](c, "number")
	expectNoAllocations(t, "int64", func() error {
		_, err := number(ctx, 7)
		return err
	})
	several := client.Func4[float64, bool, time.Duration, uint8, client.None](c, "several")
	expectNoAllocations(t, "four arguments", func() error {
		_, err := several(ctx, 1.5, true, time.Second, 9)
		return err
	})
	var result, seven any = new(int64), int64(7)
	expectNoAllocations(t, "seen when it is made", func() error { return c.Call(ctx, "number", result, seven) })
}

func TestAllocationsOfDirectedCalls(t *testing.T) {
	gateway, there := newLocalTeller(t), newLocalPlace(t)
	gateway.say(there.address, time.Minute)
	c := newClient(t, gateway.address)
	expectWork(t, c, 1, gateway.place, there)
	ctx := context.Background()
	for what, name := range map[string]string{"made where the server directs it": "work", "not directed": "stay"} {
		nothing := client.Func0[client.None](c, name)
		if _, err := nothing(ctx); err != nil {
			t.Fatal(err)
		}
		expectNoAllocations(t, what, func() error { _, err := nothing(ctx); return err })
	}
	if there.executed.Load() < 2000 || gateway.executed.Load() < 2000 {
		t.Errorf("%d calls were made there, and %d not", there.executed.Load(), gateway.executed.Load())
	}
}

func expectNoAllocations(t *testing.T, what string, call func() error) {
	t.Helper()
	allocations := testing.AllocsPerRun(2000, func() {
		if err := call(); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%s: %v allocations per call", what, allocations)
	}
}

func TestCallsThroughMemoryDoNotAllocate(t *testing.T) {
	c := withMemory(t, startServer(t))
	payload, reply := make([]byte, 300), make([]byte, 0, 300)
	// The clock of the machine may start a garbage collection in between.
	expectNoAllocations(t, "through memory", func() error {
		_, err := c.CallRaw(context.Background(), "echo", payload, reply)
		return err
	})
}

// What an observer is told lies in memory that is used again.
func TestObserversDoNotAllocate(t *testing.T) {
	var bytes int
	c := withMemory(t, startServer(t), client.WithObserver(&observe.Observer{
		CallBegan:   func(_ context.Context, call *observe.Call) { bytes += call.RequestBytes },
		CallStarted: func(_ context.Context, call *observe.Call) { bytes += call.Attempt },
		CallEnded:   func(_ context.Context, call *observe.Call) { bytes += call.ReplyBytes },
	}))
	payload, reply := make([]byte, 300), make([]byte, 0, 300)
	expectNoAllocations(t, "observed", func() error {
		_, err := c.CallRaw(context.Background(), "echo", payload, reply)
		return err
	})
	if bytes == 0 {
		t.Error("nothing was observed")
	}
}

// Choosing among endpoints costs no memory.
func TestCallsOfSeveralEndpointsDoNotAllocate(t *testing.T) {
	answering := func(p *peer) string {
		go func() { p.serve().answerInPlace() }()
		return p.address
	}
	far, equal := answering(newRemotePeer(t, "tcp")), answering(newRemotePeer(t, "tcp"))
	for name, address := range map[string]string{
		"nearest": answering(newPeer(t)) + " | tcp:127.0.0.1:1",
		"equals":  far + "," + strings.TrimPrefix(equal, "tcp:") + "?silence=off",
	} {
		c, err := client.New(address)
		must(t, err)
		defer c.Close()
		in, out := make([]byte, 64), make([]byte, 0, 64)
		echo := func() error {
			_, err := c.CallRaw(context.Background(), "echo", in, out)
			return err
		}
		for range 100 { // of equals, each has a connection then
			must(t, echo())
		}
		expectNoAllocations(t, name, echo)
	}
}
