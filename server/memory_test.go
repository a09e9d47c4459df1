package server_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/spin"
	"github.com/nearcall/nearcall/status"
)

// A memoryCaller is a caller that has been given shared memory. What goes wrong
// ends the test.
type memoryCaller struct {
	*memorytest.Caller
	*caller
}

// connectWithMemory makes calls until the server gives memory, and maps it.
func connectWithMemory(t testing.TB, path string) *memoryCaller {
	t.Helper()
	c, err := memorytest.ConnectWithMemory(path, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &memoryCaller{c, &caller{t: t, conn: c.Conn}}
}

func (c *memoryCaller) put(frame *wire.Frame) {
	c.t.Helper()
	if err := c.Put(frame); err != nil {
		c.t.Fatal(err)
	}
}

// take waits for a frame in the ring.
func (c *memoryCaller) take() wire.Frame {
	c.t.Helper()
	frame, err := c.Take()
	if err != nil {
		c.t.Fatal(err)
	}
	return frame
}

// takeFrame waits for a frame that may come either way.
func (c *memoryCaller) takeFrame() wire.Frame {
	c.t.Helper()
	frame, err := c.TakeFrame()
	if err != nil {
		c.t.Fatal(err)
	}
	return frame
}

func TestCallsThroughMemory(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	c := connectWithMemory(t, start(t, s))
	for _, size := range []int{0, 1, 14, 15, 78, 79, 4096, 1 << 20} {
		data := bytes.Repeat([]byte{byte(size + 1)}, size)
		for range 100 {
			frame := c.Request("echo", data)
			c.put(&frame)
			reply := c.take()
			if reply.Type != wire.Reply || reply.CallID != c.LastID || !bytes.Equal(reply.Payload, data) {
				t.Fatalf("%d bytes: %v %d with %d bytes, want the reply to %d", size, reply.Type, reply.CallID, len(reply.Payload), c.LastID)
			}
		}
	}
}

func serveEcho(t testing.TB, options ...server.Option) (*server.Server, string) {
	t.Helper()
	s := newServer(t, options...)
	register(t, s, "echo", func(data []byte) []byte { return data })
	return s, start(t, s)
}

// Whatever the two sides do between putting and sleeping, every call is
// answered once.
func TestSleepersAreWoken(t *testing.T) {
	_, path := serveEcho(t, server.WithSpin(spin.Off))
	c := connectWithMemory(t, path)
	for range 20000 {
		frame := c.Request("echo", []byte("x"))
		c.put(&frame)
		if reply := c.takeFrame(); reply.CallID != c.LastID {
			t.Fatalf("reply to %d, want %d", reply.CallID, c.LastID)
		}
	}
}

// A caller may fall asleep between the server's look at its word and the reply. It is
// told so, although the server looks again only when it has put all replies of a batch.
func TestCallersThatFallAsleepAreWoken(t *testing.T) {
	const rounds, atOnceMax, looksMax, atMost = 50_000, 4, 64, 10 * time.Second
	_, path := serveEcho(t, server.WithSpin(spin.Dedicated))
	c := connectWithMemory(t, path)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	until := time.Now().Add(atMost)
	for round := 0; round < rounds && time.Now().Before(until); round++ {
		atOnce := 1 + random.IntN(atOnceMax)
		for range atOnce {
			frame := c.Request("echo", []byte("x"))
			c.put(&frame)
		}
		c.Looks = random.IntN(looksMax)
		for range atOnce {
			c.takeFrame()
		}
	}
}

func TestManyInFlightThroughMemory(t *testing.T) {
	_, path := serveEcho(t)
	c := connectWithMemory(t, path)
	for range 500 {
		want := make(map[uint64]bool)
		for range 300 {
			frame := c.Request("echo", make([]byte, 500))
			c.put(&frame)
			want[c.LastID] = true
		}
		for range 300 {
			reply := c.takeFrame()
			if !want[reply.CallID] {
				t.Fatalf("call %d was answered twice or never made", reply.CallID)
			}
			delete(want, reply.CallID)
		}
	}
}

// A slow function holds up no other call of its connection, and its reply is
// not mixed up with theirs.
func TestSlowFunctionThroughMemory(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	hold := newGate()
	register(t, s, "hold", func(data []byte) []byte {
		hold.wait()
		return slices.Clone(data)
	})
	c := connectWithMemory(t, start(t, s))
	slow := c.Request("hold", bytes.Repeat([]byte{7}, 80))
	c.put(&slow)
	<-hold.started
	for range wire.SharedMemoryMarks - 1 {
		frame := c.Request("echo", bytes.Repeat([]byte{9}, 80))
		c.put(&frame)
		if reply := c.takeFrame(); reply.CallID != c.LastID {
			t.Fatalf("reply to %d, want %d", reply.CallID, c.LastID)
		}
	}
	if stage := c.End.Marks().Stage(slow.CallID); stage != sharedmemory.StageStarted {
		t.Errorf("the mark of a running call says %d, want started", stage)
	}
	close(hold.release)
	if reply := c.takeFrame(); reply.CallID != slow.CallID || !bytes.Equal(reply.Payload, slow.Payload) {
		t.Errorf("reply to %d: %v", reply.CallID, reply.Payload)
	}
	if stage := c.End.Marks().Stage(slow.CallID); stage != sharedmemory.StageFinished {
		t.Errorf("the mark of an answered call says %d, want finished", stage)
	}
}

// The limit of calls in flight is the connection's, whichever way they came.
func TestCallsInFlightOfBothWays(t *testing.T) {
	s, hold := newServer(t, server.WithCallsInFlight(2, 10)), newGate()
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "hold", func([]byte) []byte { hold.wait(); return nil }, server.MaxConcurrency(10))
	c := connectWithMemory(t, start(t, s))
	defer close(hold.release)
	first, second, third := c.Request("hold", nil), c.Request("hold", nil), c.Request("hold", nil)
	if !c.End.Put(&first.Header, first.Extensions, nil) {
		t.Fatal("no room")
	}
	c.send((&wire.Header{Type: wire.Wake}).Append(nil))
	<-hold.started
	c.send(second.Append(nil))
	<-hold.started
	c.put(&third)
	reply := c.takeFrame()
	if code, _, _ := wire.SplitStatus(reply.Status); reply.CallID != third.CallID || code != uint8(status.ResourceExhausted) {
		t.Errorf("call %d: %v with code %d, want RESOURCE_EXHAUSTED for %d", reply.CallID, reply.Type, code, third.CallID)
	}
}

// A connection's end is the end of starting: what waits for its turn never runs,
// as its mark says.
func TestNothingStartsAfterTheEnd(t *testing.T) {
	s := newServer(t)
	hold := newGate()
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "hold", func([]byte) []byte { hold.wait(); return nil }, server.MaxConcurrency(1))
	c := connectWithMemory(t, start(t, s))
	first, second := c.Request("hold", nil), c.Request("hold", nil)
	c.put(&first)
	<-hold.started
	c.put(&second)
	waitFor(t, "the second call to be received", func() bool {
		return c.End.Marks().Stage(second.CallID) == sharedmemory.StageReceived
	})
	c.send((&wire.Header{Type: wire.Pong}).Append(nil)) // breaks the protocol
	for c.takeFrame().Type != wire.Error {
	}
	c.wantEnd()
	close(hold.release)
	waitFor(t, "the first call to end", func() bool { return hold.ended.Load() > 0 })
	if stage := c.End.Marks().Stage(second.CallID); stage != sharedmemory.StageReceived || len(hold.started) > 0 {
		t.Errorf("the mark says %d and %d more calls started, want received and 0", stage, len(hold.started))
	}
}

// TestRefusedArgumentsAreNotMarkedAsRun: whose deadline passes before the refusal arrives
// learns from the mark what became of the call.
func TestRefusedArgumentsAreNotMarkedAsRun(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	register(t, s, "add", func(a, b int64) int64 { return a + b })
	register(t, s, "apart", func(a, b int64) int64 { return a + b }, server.MaxConcurrency(1))
	register(t, s, "fail", func(a, b int64) error { return status.Errorf(status.Aborted, "").With(status.OutcomeNotExecuted) })
	c := connectWithMemory(t, start(t, s))
	for name, row := range map[string]struct {
		payload string
		want    sharedmemory.Stage
	}{
		"add": {"\x92\x01\xa1x", sharedmemory.StageReceived}, "apart": {"\x91\x01", sharedmemory.StageReceived},
		"fail": {"\x92\x01\x02", sharedmemory.StageFinished},
	} {
		request := c.Request(name, []byte(row.payload))
		request.Codec = wire.CodecMessagePack
		c.put(&request)
		if answer := c.takeFrame(); answer.Type != wire.Error || answer.CallID != request.CallID {
			t.Fatalf("%s: %v for call %d", name, answer.Type, answer.CallID)
		}
		if stage := c.End.Marks().Stage(request.CallID); stage != row.want {
			t.Errorf("%s: the mark says %d, want %d", name, stage, row.want)
		}
	}
}

func TestDrainThroughMemory(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	hold := newGate()
	register(t, s, "hold", func([]byte) []byte { hold.wait(); return nil })
	path, stop := serve(t, s, nil)
	c := connectWithMemory(t, path)
	call := c.Request("hold", nil)
	c.put(&call)
	<-hold.started
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if frame := c.takeFrame(); frame.Type != wire.Drain || frame.CallID != call.CallID {
		t.Fatalf("%v %d, want DRAIN %d", frame.Type, frame.CallID, call.CallID)
	}
	close(hold.release)
	if frame := c.takeFrame(); frame.Type != wire.Reply || frame.CallID != call.CallID {
		t.Fatalf("%v %d, want the reply to %d", frame.Type, frame.CallID, call.CallID)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// What a hostile caller writes into its region costs it the connection, and
// nobody else.
func TestMalformedSlots(t *testing.T) {
	header := wire.Header{Type: wire.Request, CallID: 1 << 40, FunctionID: 1}
	cases := map[string]func(slot []byte){
		"body beyond the slot":   func(slot []byte) { binary.LittleEndian.PutUint32(slot[8:], 89) },
		"place before the arena": func(slot []byte) { binary.LittleEndian.PutUint32(slot[4:], 64) },
		"place not aligned":      func(slot []byte) { binary.LittleEndian.PutUint32(slot[4:], 4096+128*128+1) },
		"place at the end": func(slot []byte) {
			binary.LittleEndian.PutUint32(slot[4:], 4096+128*128+wire.SharedMemoryArenaBytes-64)
			binary.LittleEndian.PutUint32(slot[8:], 65)
		},
		"place beyond the end": func(slot []byte) { binary.LittleEndian.PutUint32(slot[4:], 0xFFFFFFC0) },
		"too large":            func(slot []byte) { binary.LittleEndian.PutUint32(slot[8:], 0xFFFFFFFF) },
		"WAKE":                 func(slot []byte) { slot[12], slot[24] = byte(wire.Wake), 0 },
		"a server's frame":     func(slot []byte) { slot[12] = byte(wire.Reply) },
		"extensions too long":  func(slot []byte) { binary.LittleEndian.PutUint32(slot[36:], 1) },
	}
	s, path := serveEcho(t)
	other := connectWithMemory(t, path)
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			c := connectWithMemory(t, path)
			raw, err := memorytest.Map(c.Files()[0], c.Files()[1])
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			slot := raw.Slot(0)
			header.Put(slot[8:])
			damage(slot)
			raw.Publish(0)
			c.send((&wire.Header{Type: wire.Wake}).Append(nil))
			frame := c.takeFrame()
			if code, _, _ := wire.SplitStatus(frame.Status); frame.Type != wire.Error || frame.CallID != 0 ||
				code != uint8(status.InvalidArgument) && code != uint8(status.ResourceExhausted) {
				t.Fatalf("%v for call %d, want an ERROR for the connection", frame.Type, frame.CallID)
			}
			c.wantEnd()
		})
	}
	frame := other.Request("echo", []byte("still here"))
	other.put(&frame)
	if reply := other.takeFrame(); string(reply.Payload) != "still here" {
		t.Errorf("another caller got %q", reply.Payload)
	}
	if violations := s.Statistics().ViolationsTotal; violations != uint64(len(cases)) {
		t.Errorf("%d violations counted, want %d", violations, len(cases))
	}
}

// The time that a frame may take on the socket ends with the frame, also for a
// server that does not wait for the socket any more.
func TestTimeOfAFrameEndsWithIt(t *testing.T) {
	const frameTimeout = 50 * time.Millisecond
	_, path := serveEcho(t, server.WithSpin(spin.Dedicated), server.WithFrameTimeout(frameTimeout))
	m, err := memorytest.Connect(path, testTimeout, wire.FeatureSharedMemory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	c := &memoryCaller{m, &caller{t: t, conn: m.Conn}}
	for i := range wire.SharedMemoryAfterCalls {
		request := c.Request("echo", []byte("x"))
		bytes := request.Append(nil)
		if i == wire.SharedMemoryAfterCalls-1 {
			c.send(bytes[:1])
			waitFor(t, "the server to read a part", func() bool { return unsentBytes(t, m.Conn) == 0 })
			bytes = bytes[1:]
		}
		c.send(bytes)
		if reply, err := m.Next(); err != nil || reply.Type != wire.Reply {
			t.Fatal(reply.Type, err)
		}
	}
	if err := m.Attach(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(3 * frameTimeout); time.Now().Before(until); {
		request := c.Request("echo", []byte("x"))
		c.put(&request)
		if reply := c.takeFrame(); reply.Type != wire.Reply || reply.CallID != c.LastID {
			t.Fatalf("%v %d, want the reply to %d", reply.Type, reply.CallID, c.LastID)
		}
	}
}

// A part of a frame is not waited for longer by a server that its ring keeps
// busy.
func TestHalfAFrameBesideCalls(t *testing.T) {
	const frameTimeout = 50 * time.Millisecond
	_, path := serveEcho(t, server.WithSpin(spin.Dedicated), server.WithFrameTimeout(frameTimeout))
	c := connectWithMemory(t, path)
	c.send([]byte{1})
	for until := time.Now().Add(testTimeout / 2); time.Now().Before(until); {
		request := c.Request("echo", []byte("x"))
		c.put(&request)
		if reply := c.takeFrame(); reply.Type == wire.Error {
			return
		}
	}
	t.Error("half a frame was waited for all the time")
}

// A server that has been looking at its ring for long still knows what time it
// is: a call whose deadline has passed does not start, whichever way it comes.
func TestDeadlinePassesWhileTheServerSpins(t *testing.T) {
	const wait = 50 * time.Millisecond
	_, path := serveEcho(t, server.WithSpin(spin.Dedicated))
	c := connectWithMemory(t, path)
	for range 100 { // on one CPU each may take as long as the scheduler lets a spinner run
		frame := c.Request("echo", nil)
		c.put(&frame)
		c.take()
	}
	for i := range 6 {
		passed := wire.DeadlineField(monotonic.New().Ns()/uint64(time.Millisecond), 0, true)
		<-time.After(wait)
		frame := c.Request("echo", nil)
		frame.Deadline = passed
		if i%2 == 0 {
			c.put(&frame)
		} else {
			c.send(frame.Append(nil))
		}
		reply := c.takeFrame()
		if code, _, _ := wire.SplitStatus(reply.Status); reply.Type != wire.Error || code != uint8(status.DeadlineExceeded) {
			t.Errorf("call %d: %v with code %d, want DEADLINE_EXCEEDED", i, reply.Type, code)
		}
	}
}

// unsentBytes returns how many bytes the peer has not read.
func unsentBytes(t *testing.T, conn *net.UnixConn) (unread int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { unread, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return unread
}

// Near the user's share connections get less, then nothing, and all work.
func TestMemoryPerUser(t *testing.T) {
	base := int64(4096*3 + 2*128*wire.SharedMemorySlots)
	full := base + 2*wire.SharedMemoryArenaBytes
	s, path := serveEcho(t, server.WithSharedMemoryBytesPerUser(full+base))
	connectWithMemory(t, path)
	small := connectWithMemory(t, path)
	data := make([]byte, 1<<16)
	frame := small.Request("echo", data)
	small.put(&frame)
	if reply := small.takeFrame(); len(reply.Payload) != len(data) {
		t.Errorf("%d bytes came back, want %d", len(reply.Payload), len(data))
	}
	none := dial(t, path)
	offer := hello()
	offer.Offered |= wire.FeatureSharedMemory
	none.greet(offer)
	none.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: none.welcome.Accepted}
	for range 2 * wire.SharedMemoryAfterCalls {
		if _, failure := none.call("echo", []byte("x")); failure != nil {
			t.Fatal(failure)
		}
	}
	// What is given is counted when the caller may have used it already.
	waitFor(t, "two connections to be counted", func() bool { return s.Statistics().SharedMemoryTotal >= 2 })
	if given := s.Statistics().SharedMemoryTotal; given != 2 {
		t.Errorf("%d connections got memory, want 2", given)
	}
}

func TestMemoryIsOff(t *testing.T) {
	_, path := serveEcho(t, server.WithoutSharedMemory())
	c := dial(t, path)
	offer := hello()
	offer.Offered |= wire.FeatureSharedMemory
	c.greet(offer)
	if c.welcome.Accepted&wire.FeatureSharedMemory != 0 {
		t.Error("the server accepts shared memory, which is off")
	}
}

func BenchmarkMemory(b *testing.B) {
	_, path := serveEcho(b)
	c := connectWithMemory(b, path)
	// The time of a benchmark is not that of a test.
	if err := c.Conn.SetDeadline(time.Time{}); err != nil {
		b.Fatal(err)
	}
	frame := c.Request("echo", make([]byte, 64))
	frame.FunctionID, frame.Extensions = 1, nil
	frame.ExtensionBytes, frame.Length = 0, 64
	record := make([]byte, sharedmemory.RecordBytesMin)
	for b.Loop() {
		c.LastID++
		frame.CallID = c.LastID
		if !c.End.Put(&frame.Header, nil, frame.Payload) {
			b.Fatal("no room")
		}
		if c.End.MustWake() {
			c.send((&wire.Header{Type: wire.Wake}).Append(nil))
		}
		for !c.End.Look(64) {
		}
		if _, err := c.End.Take(record, wire.FrameBytesMaxCeiling, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The more of what a user may have is taken, the smaller are the arenas that its connections get.
func TestArenasBecomeSmaller(t *testing.T) {
	geometry := sharedmemory.Geometry{Slots: wire.SharedMemorySlots, Marks: wire.SharedMemoryMarks}
	bare := geometry.Bytes()
	geometry.ArenaBytes = 64 << 10
	whole := geometry.Bytes()
	geometry.ArenaBytes /= 2
	half := geometry.Bytes()
	_, path := serveEcho(t, server.WithSharedMemoryArena(64<<10), server.WithSharedMemoryBytesPerUser(2*(whole+half+bare)))
	for i, want := range []int{64 << 10, 64 << 10, 32 << 10, 32 << 10, 0} {
		if got := connectWithMemory(t, path).Regions.Geometry().ArenaBytes; got != want {
			t.Errorf("connection %d got arenas of %d bytes, want %d", i+1, got, want)
		}
	}
}
