package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

func TestRepliesInAnyOrder(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	var calls []<-chan result
	for i := range 100 {
		calls = append(calls, begin(context.Background(), c, "echo", fmt.Append(nil, i)))
	}
	conn := p.serve()
	var requests []wire.Frame
	for range calls {
		requests = append(requests, conn.expect(wire.Request))
	}
	rand.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	var all []byte
	for _, request := range requests {
		frame := replyTo(request, request.Payload)
		all = frame.Append(all)
	}
	for len(all) > 0 {
		n := min(len(all), 1+rand.IntN(200))
		conn.write(all[:n])
		all = all[n:]
	}
	for i, call := range calls {
		expectReply(t, wait(t, call), fmt.Sprint(i))
	}
}

// The name travels until the function's id is known, and the id after that, on
// the next connection too if the schema is the same.
func TestFunctionIDs(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	var conn *peerConn
	expectCall := func(id uint32, name string) {
		t.Helper()
		done := begin(context.Background(), c, "echo", nil)
		if conn == nil {
			conn = p.serve()
		}
		request := conn.expect(wire.Request)
		got, _ := wire.FindExtension(request.Extensions, wire.ExtensionFunctionName)
		if request.FunctionID != id || string(got) != name {
			t.Fatalf("got id %d, name %q; want %d, %q", request.FunctionID, got, id, name)
		}
		conn.reply(request, nil)
		expectReply(t, wait(t, done), "")
	}
	reconnect := func() {
		conn.end()
		conn = nil
		expectNoGoroutines(t)
	}
	expectCall(0, "echo")
	expectCall(1, "")
	reconnect()
	expectCall(1, "")
	p.welcome.SchemaHash++
	reconnect()
	expectCall(0, "echo")
}

func TestCallsInFlightMax(t *testing.T) {
	p := newPeer(t)
	p.welcome.CallsInFlightMax = 2
	c := p.client()
	var calls []<-chan result
	calls = append(calls, begin(context.Background(), c, "echo", nil))
	conn := p.serve()
	first := conn.expect(wire.Request)
	calls = append(calls, begin(context.Background(), c, "echo", nil))
	second := conn.expect(wire.Request)

	// One whose deadline passes was not sent.
	expectTimeout(t, wait(t, begin(shortContext(t), c, "echo", nil)), status.OutcomeNotExecuted)

	calls = append(calls, begin(context.Background(), c, "echo", nil))
	conn.reply(second, nil)
	third := conn.expect(wire.Request)
	conn.reply(first, nil)
	conn.reply(third, nil)
	for _, call := range calls {
		expectReply(t, wait(t, call), "")
	}
}

// A call that was given up counts until it is answered.
func TestCallGivenUpCountsAsInFlight(t *testing.T) {
	p := newPeer(t)
	p.welcome.CallsInFlightMax = 1
	c := p.client()
	done := begin(shortContext(t), c, "echo", nil)
	conn := p.serve()
	first := conn.expect(wire.Request)
	expectTimeout(t, wait(t, done), status.OutcomeUnknown)
	conn.expect(wire.Cancel)
	expectTimeout(t, wait(t, begin(shortContext(t), c, "echo", nil)), status.OutcomeNotExecuted)
	done = begin(context.Background(), c, "echo", nil)
	conn.reply(first, []byte("late"))
	conn.reply(conn.expect(wire.Request), []byte("next"))
	expectReply(t, wait(t, done), "next")
}

// Those who wait for a place move on when the connection ends.
func TestPlacesOnTheNextConnection(t *testing.T) {
	p := newPeer(t)
	p.welcome.CallsInFlightMax = 1
	c := p.client(client.WithAttempts(1))
	first := begin(context.Background(), c, "echo", nil)
	conn := p.serve()
	conn.expect(wire.Request)
	second := begin(context.Background(), c, "echo", nil)
	conn.end()
	expectFailure(t, wait(t, first).err, status.Unavailable, status.OutcomeUnknown)
	conn = p.serve()
	conn.reply(conn.expect(wire.Request), []byte("second"))
	expectReply(t, wait(t, second), "second")
}

// echo answers all requests of a connection until it ends.
func (c *peerConn) echo() {
	part := make([]byte, 256<<10)
	for {
		n, err := c.Read(part)
		if err != nil {
			return
		}
		c.buffer = append(c.buffer, part[:n]...)
		var out []byte
		for {
			var frame wire.Frame
			taken, err := c.parser.Next(c.buffer, &frame)
			if err != nil {
				c.t.Error(err)
				return
			}
			if taken == 0 {
				break
			}
			if frame.Type == wire.Request {
				reply := replyTo(frame, frame.Payload)
				out = reply.Append(out)
			}
			c.buffer = c.buffer[taken:]
		}
		c.buffer = append([]byte(nil), c.buffer...)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// Small, large and cancelled calls on one connection: each gets its own reply.
func TestManyCallers(t *testing.T) {
	p := newPeer(t)
	c := p.client(client.WithAttempts(1))
	go func() {
		// A caller whose deadline passes while it connects leaves its attempt.
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			go p.welcomeAndEcho(conn)
		}
	}()
	const callers, callsEach = 32, 60
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() { callMany(t, c, uint64(caller), callsEach) })
	}
	wait.Wait()
}

// welcomeAndEcho serves a connection whose caller may leave at any time.
func (p *peer) welcomeAndEcho(conn net.Conn) {
	defer conn.Close()
	var hello wire.Hello
	buffer := make([]byte, wire.HelloBytesMax)
	n, err := conn.Read(buffer)
	if err != nil {
		return
	}
	if taken, err := wire.ParseHello(buffer[:n], &hello); taken != n || err != nil {
		p.t.Errorf("hello of %d bytes: %d, %v", n, taken, err)
	}
	welcome := p.welcome
	if _, err := conn.Write(welcome.Append(nil)); err != nil {
		return
	}
	(&peerConn{Conn: conn, t: p.t, parser: wire.Parser{From: wire.CallerSide, FrameBytesMax: wire.FrameBytesMax}}).echo()
}

func callMany(t *testing.T, c *client.Client, caller uint64, calls int) {
	random := rand.New(rand.NewPCG(1, caller))
	var reply []byte
	for i := range calls {
		payload := make([]byte, 16)
		if random.IntN(8) == 0 {
			payload = make([]byte, 16+random.IntN(600<<10))
		}
		binary.LittleEndian.PutUint64(payload, caller)
		binary.LittleEndian.PutUint64(payload[8:], uint64(i))
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if random.IntN(4) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(3000))*time.Microsecond)
		}
		var err error
		reply, err = c.CallRaw(ctx, "echo", payload, reply[:0])
		cancel()
		switch {
		case err == nil && !bytes.Equal(reply, payload):
			t.Errorf("caller %d got another's reply", caller)
			return
		case err != nil && ctx.Err() == nil:
			t.Error(err)
			return
		}
	}
}

func TestLargeReplies(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	go func() {
		conn := p.serve()
		must(t, conn.SetDeadline(time.Time{}))
		conn.echo()
	}()
	for _, size := range []int{0, 1, gatherMin - 1, gatherMin, 64<<10 - wire.HeaderBytes, 64<<10 - wire.HeaderBytes + 1, 1 << 20, wire.FrameBytesMax - 100} {
		payload := bytes.Repeat([]byte{byte(size)}, size)
		got, err := c.CallRaw(context.Background(), "echo", payload, []byte("kept"))
		must(t, err)
		if !bytes.Equal(got, append([]byte("kept"), payload...)) {
			t.Fatalf("%d bytes came back as %d", size, len(got))
		}
	}
}

// gatherMin is the size from which payloads are written from where they are.
const gatherMin = 16 << 10

func TestPing(t *testing.T) {
	p := newPeer(t)
	c := p.client()
	done := make(chan error, 1)
	go func() {
		_, err := c.Ping(context.Background())
		done <- err
	}()
	conn := p.serve()
	ping := conn.expect(wire.Ping)
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: ping.Payload})
	must(t, <-done)

	_, err := c.Ping(shortContext(t))
	expectFailure(t, err, status.DeadlineExceeded, status.OutcomeNotExecuted)
	late := conn.expect(wire.Ping)
	conn.send(wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: late.Payload})
	call := begin(context.Background(), c, "echo", nil)
	conn.reply(conn.expect(wire.Request), nil)
	expectReply(t, wait(t, call), "")
}

// answerInPlace turns each request into its reply without allocating: for
// MessagePack the last argument comes back.
func (c *peerConn) answerInPlace() {
	buffer := make([]byte, 4096)
	for {
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		header := wire.ParseHeader(buffer)
		if header.Type == wire.Resolve {
			c.buffer = append(c.buffer[:0], buffer[:n]...)
			c.describe(map[string]any{"number": func(int64) int64 { return 0 },
				"several": func(float64, bool, time.Duration, uint8) {}}[string(buffer[wire.HeaderBytes:n])])
			continue
		}
		payload := buffer[wire.HeaderBytes:n]
		if header.Codec == wire.CodecMessagePack {
			payload = payload[len(payload)-1:]
		}
		header = wire.Header{Type: wire.Reply, Codec: header.Codec, CallID: header.CallID, FunctionID: 1, Length: uint32(len(payload))}
		n = wire.HeaderBytes + copy(buffer[wire.HeaderBytes:], payload)
		header.Put(buffer)
		if _, err := c.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// However many begin to call at the same moment, one connection is opened.
func TestOneConnectionForAll(t *testing.T) {
	for range 50 {
		p := newPeer(t)
		c, err := client.New(p.address)
		must(t, err)
		var calls []<-chan result
		for range 50 {
			calls = append(calls, begin(context.Background(), c, "echo", nil))
		}
		go p.serve().echo()
		for _, call := range calls {
			expectReply(t, wait(t, call), "")
		}
		p.expectNoConnection()
		must(t, c.Close())
	}
}
