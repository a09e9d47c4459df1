package server_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/spin"
	"github.com/nearcall/nearcall/status"
)

// TestOptionsOutOfRangeAreRefused: nobody finds out in production that a limit is
// another one than was asked for.
func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for name, option := range map[string]server.Option{
		"WithHelloTimeout":             server.WithHelloTimeout(time.Hour),
		"WithFrameTimeout":             server.WithFrameTimeout(0),
		"WithFrameSilence":             server.WithFrameSilence(-1),
		"WithWriteTimeout":             server.WithWriteTimeout(time.Hour),
		"WithDrainTimeout":             server.WithDrainTimeout(-1),
		"WithFrameBytesMax":            server.WithFrameBytesMax(64 << 20),
		"WithPendingOutputBytesMax":    server.WithPendingOutputBytesMax(0),
		"WithCallsInFlight":            server.WithCallsInFlight(0, 1),
		"WithConnections":              server.WithConnections(10, 1<<30),
		"WithInputBytes":               server.WithInputBytes(1, 1<<20),
		"WithOutputBytes":              server.WithOutputBytes(1<<20, 1),
		"WithSpin":                     server.WithSpin(spin.Dedicated + 1),
		"WithSharedMemoryBytesPerUser": server.WithSharedMemoryBytesPerUser(-1),
		"WithSharedMemoryAfter":        server.WithSharedMemoryAfter(0),
		"WithSharedMemoryArena":        server.WithSharedMemoryArena(1 << 30),
		"WithSharedMemoryArena: 4095":  server.WithSharedMemoryArena(4095),
		"WithSocketMode":               server.WithSocketMode(0o1770),
		"WithSocketMode: 0":            server.WithSocketMode(0),
		"WithSocketGroup":              server.WithSocketGroup(-1),
		"WithName":                     server.WithName(strings.Repeat("x", 256)),
	} {
		_, err := tryServer(option)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "out of range") {
			t.Errorf("%s: %v, want an error that names the option and the range", name, err)
		}
	}
}

// TestOptionsThatAreNilAreRefused: nobody finds out by a panic in each call.
func TestOptionsThatAreNilAreRefused(t *testing.T) {
	for name, option := range map[string]server.Option{"WithLogger": server.WithLogger(nil), "WithInterceptor": server.WithInterceptor(nil)} {
		if _, err := tryServer(option); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names the option", name, err)
		}
	}
	err := newServer(t).Register("one", func() int64 { return 1 }, server.Intercept(nil))
	if err == nil || !strings.Contains(err.Error(), "Intercept") {
		t.Errorf("Intercept: %v, want an error that names the option", err)
	}
}

// TestOutputHoldsOneReply: a budget that a reply of the largest size does not fit would have every
// such function run, and lose its result. The least that is taken is enough.
func TestOutputHoldsOneReply(t *testing.T) {
	const frameBytes, least = 100_000, 192 << 10
	for name, option := range map[string]server.Option{
		"perUser": server.WithOutputBytes(1<<30, least-1), "all": server.WithOutputBytes(least-1, 1<<30),
	} {
		_, err := tryServer(option, server.WithFrameBytesMax(frameBytes))
		if err == nil || !strings.Contains(err.Error(), "WithOutputBytes, "+name+": 196607") ||
			!strings.Contains(err.Error(), "196608") || !strings.Contains(err.Error(), "WithFrameBytesMax") {
			t.Errorf("%s: %v, want an error that names both options and the least", name, err)
		}
	}
	s := newServer(t, server.WithFrameBytesMax(frameBytes), server.WithOutputBytes(least, least))
	register(t, s, "fill", func([]byte) []byte { return make([]byte, frameBytes) }, server.Apart())
	c := connect(t, start(t, s))
	for id := range uint64(3) {
		c.send(append(unfinished(id+1, "fill", 1), 0))
		if reply := c.next(); reply.Type != wire.Reply || len(reply.Payload) != frameBytes {
			t.Fatalf("call %d: %v with %d bytes: %.400q", id+1, reply.Type, len(reply.Payload), reply.Payload)
		}
	}
}

// TestErrorsNameTheOption: whoever meets a limit reads what raises it, and how far.
func TestErrorsNameTheOption(t *testing.T) {
	s := newServer(t, server.WithFrameBytesMax(wire.FrameBytesFloor), server.WithCallsInFlight(1, 1))
	g := newGate()
	register(t, s, "wait", g.wait, server.Apart())
	register(t, s, "long", func() string { return strings.Repeat("x", 2*wire.FrameBytesFloor) })
	path := start(t, s)
	ceiling := strconv.Itoa(wire.FrameBytesMaxCeiling)
	want := func(message string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(message, part) {
				t.Errorf("%q does not name %s", message, part)
			}
		}
	}
	c := connect(t, path)
	c.send(append(unfinished(1, "long", 2*wire.FrameBytesFloor), 0))
	_, _, failure := c.result()
	want(failure.Message, "frame_bytes_max", "WithFrameBytesMax", "server", ceiling)

	want(dial(t, path).simple(`{"f":"long"}`).Failure.Message, "frame_bytes_max", "WithFrameBytesMax", ceiling)

	c = dial(t, path)
	small := hello()
	small.FrameBytesMax = wire.FrameBytesFloor
	c.greet(small)
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	_, failure = c.call("long")
	want(failure.Message, "frame_bytes_max", "client.WithFrameBytesMax", ceiling)

	c.begin("wait", 0)
	<-g.started
	_, failure = c.call("wait")
	want(failure.Message, "calls_in_flight_max", "WithCallsInFlight", strconv.Itoa(wire.CallsInFlightMaxCeiling))
	close(g.release)
	c.result()
}

// TestGuidesNameTheLargestFrame: whoever sends or expects much reads how much that may be, in
// the guide of their language.
func TestGuidesNameTheLargestFrame(t *testing.T) {
	usual := strconv.Itoa(wire.FrameBytesMax>>20) + " MiB"
	ceiling := strconv.Itoa(wire.FrameBytesMaxCeiling)
	ceiling = ceiling[:2] + "," + ceiling[2:5] + "," + ceiling[5:]
	for _, guide := range []string{"c", "command", "go", "perl", "python", "server"} {
		text, err := os.ReadFile("../docs/guides/" + guide + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{usual, ceiling, "WithFrameBytesMax"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s.md does not name %s", guide, want)
			}
		}
	}
}

// TestErrorsSayThatALimitIsFixed: then nobody looks for an option.
func TestErrorsSayThatALimitIsFixed(t *testing.T) {
	s := newServer(t)
	register(t, s, "any", func(any) {})
	path := start(t, s)
	const listOfOne, arguments = 0x91, 1
	c := connect(t, path)
	c.send(c.request("any", 0, append(bytes.Repeat([]byte{listOfOne}, arguments+wire.NestingDepthMax+1), 1)))
	_, _, failure := c.result()
	wantFixed(t, failure, "nesting_depth_max")
	c.send(ping(strings.Repeat("x", wire.PingBytesMax+1)))
	_, _, failure = c.result()
	wantFixed(t, failure, "ping_bytes_max")
	c = connect(t, path)
	name := strings.Repeat("x", wire.FunctionNameBytesMax+1)
	resolve := wire.Frame{Header: wire.Header{Type: wire.Resolve, CallID: 1}, Payload: []byte(name)}
	c.send(resolve.Append(nil))
	_, _, failure = c.result()
	wantFixed(t, failure, "function_name_bytes_max")
	err := s.Register(name, func() {})
	if err == nil || !strings.Contains(err.Error(), "function_name_bytes_max is 255, which is fixed") {
		t.Errorf("registering a name of %d bytes: %v", len(name), err)
	}
}

func wantFixed(t *testing.T, failure *status.Error, limit string) {
	t.Helper()
	if failure == nil || !strings.Contains(failure.Message, "limit "+limit+", which is fixed") {
		t.Errorf("%v: want it to say that limit %s is fixed", failure, limit)
	}
}

// TestAFrameThatStopsNamesTheOptions: and what they may be raised to.
func TestAFrameThatStopsNamesTheOptions(t *testing.T) {
	c := connect(t, start(t, newServer(t, server.WithFrameSilence(time.Millisecond))))
	c.send(ping("payload")[:wire.HeaderBytes])
	_, _, failure := c.result()
	if failure != nil && failure.Code != status.Unavailable {
		t.Errorf("%v: who is slow has broken no rule", failure.Code)
	}
	for _, want := range []string{"WithFrameSilence", "WithFrameTimeout", strconv.Itoa(wire.FrameTimeoutMsCeiling)} {
		if failure == nil || !strings.Contains(failure.Message, want) {
			t.Errorf("%v: want it to say %s", failure, want)
		}
	}
}
