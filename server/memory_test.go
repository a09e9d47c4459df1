package server_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// A memoryCaller is a caller that has been given shared memory.
type memoryCaller struct {
	*caller
	regions *sharedmemory.Regions
	end     *sharedmemory.End
	record  []byte
}

// connectWithMemory makes calls until the server gives memory, and maps it.
func connectWithMemory(t testing.TB, path string) *memoryCaller {
	t.Helper()
	c := &memoryCaller{caller: dial(t, path), record: make([]byte, wire.HeaderBytes+4<<20)}
	offer := hello()
	offer.Offered |= wire.FeatureSharedMemory
	c.greet(offer)
	if c.welcome.Accepted&wire.FeatureSharedMemory == 0 {
		t.Fatal("the server does not accept shared memory")
	}
	c.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling, Features: c.welcome.Accepted}
	for range wire.SharedMemoryAfterCalls {
		c.beginRaw("echo", nil)
	}
	c.attach()
	return c
}

func (c *memoryCaller) beginRaw(name string, data []byte) {
	frame := c.rawRequest(name, data)
	c.send(frame.Append(nil))
}

func (c *memoryCaller) rawRequest(name string, data []byte) wire.Frame {
	c.lastID++
	return wire.Frame{Header: wire.Header{Type: wire.Request, CallID: c.lastID},
		Extensions: wire.AppendExtension(nil, wire.ExtensionFunctionName, name), Payload: data}
}

// attach reads until MEMORY and its descriptors have come.
func (c *memoryCaller) attach() {
	c.t.Helper()
	var descriptors []int
	for {
		var frame wire.Frame
		n, err := c.parser.Next(c.pending, &frame)
		if err != nil {
			c.t.Fatal(err)
		}
		c.pending = c.pending[n:]
		if n > 0 && frame.Type == wire.Memory {
			c.mapRegions(wire.ParseMemoryOffer(frame.Payload), descriptors)
			return
		}
		if n > 0 {
			continue
		}
		data, control := make([]byte, 4096), make([]byte, unix.CmsgSpace(8))
		n, controlBytes, _, _, err := c.conn.ReadMsgUnix(data, control)
		if err != nil {
			c.t.Fatal(err)
		}
		c.pending = append(c.pending, data[:n]...)
		if controlBytes > 0 {
			descriptors = parseRights(c.t, control[:controlBytes])
		}
	}
}

func parseRights(t testing.TB, control []byte) []int {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		t.Fatal(err)
	}
	descriptors, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	return descriptors
}

func (c *memoryCaller) mapRegions(offer wire.MemoryOffer, descriptors []int) {
	c.t.Helper()
	geometry, err := sharedmemory.GeometryOf(offer)
	if err != nil {
		c.t.Fatal(err)
	}
	c.regions, err = sharedmemory.Attach(geometry, descriptors[0], descriptors[1])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, fd := range descriptors {
		unix.Close(fd)
	}
	c.t.Cleanup(func() { c.regions.Close() })
	c.end = c.regions.CallerEnd()
	c.end.Awake()
}

// put sends a frame as a caller does: through the ring unless the server sleeps.
func (c *memoryCaller) put(frame *wire.Frame) {
	frame.ExtensionBytes = uint32(len(frame.Extensions))
	frame.Length = uint32(len(frame.Extensions) + len(frame.Payload))
	if c.end.PeerSleeps() || !c.end.Put(&frame.Header, frame.Extensions, frame.Payload) {
		c.send(frame.Append(nil))
		return
	}
	if c.end.MustWake() {
		c.send((&wire.Header{Type: wire.Wake}).Append(nil))
	}
}

// take waits for a frame in the ring.
func (c *memoryCaller) take() wire.Frame {
	c.t.Helper()
	for {
		record, err := c.end.Take(c.record, wire.FrameBytesMaxCeiling, func(n int) []byte { return make([]byte, n) })
		if err != nil {
			c.t.Fatal(err)
		}
		if record == nil {
			continue
		}
		var frame wire.Frame
		parser := wire.Parser{From: wire.ServerSide, FrameBytesMax: wire.FrameBytesMaxCeiling}
		if _, err := parser.Next(record, &frame); err != nil {
			c.t.Fatal(err)
		}
		return frame
	}
}

func TestCallsThroughMemory(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	c := connectWithMemory(t, start(t, s))
	for _, size := range []int{0, 1, 14, 15, 78, 79, 4096, 1 << 20} {
		data := bytes.Repeat([]byte{byte(size + 1)}, size)
		for range 100 {
			frame := c.rawRequest("echo", data)
			c.put(&frame)
			reply := c.take()
			if reply.Type != wire.Reply || reply.CallID != c.lastID || !bytes.Equal(reply.Payload, data) {
				t.Fatalf("%d bytes: %v %d with %d bytes, want the reply to %d", size, reply.Type, reply.CallID, len(reply.Payload), c.lastID)
			}
		}
	}
}

// takeFrame waits for a frame that may come either way.
func (c *memoryCaller) takeFrame() wire.Frame {
	c.t.Helper()
	for !c.end.Ready() {
		if !c.end.FallAsleep() {
			continue
		}
		frame := c.next()
		c.end.Awake()
		if frame.Type != wire.Wake {
			return frame
		}
	}
	return c.take()
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
	_, path := serveEcho(t, server.WithSpin(server.SpinOff))
	c := connectWithMemory(t, path)
	for range 20000 {
		frame := c.rawRequest("echo", []byte("x"))
		c.put(&frame)
		if reply := c.takeFrame(); reply.CallID != c.lastID {
			t.Fatalf("reply to %d, want %d", reply.CallID, c.lastID)
		}
	}
}

func TestManyInFlightThroughMemory(t *testing.T) {
	_, path := serveEcho(t)
	c := connectWithMemory(t, path)
	for range 500 {
		want := make(map[uint64]bool)
		for range 300 {
			frame := c.rawRequest("echo", make([]byte, 500))
			c.put(&frame)
			want[c.lastID] = true
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
	slow := c.rawRequest("hold", bytes.Repeat([]byte{7}, 80))
	c.put(&slow)
	<-hold.started
	for range wire.SharedMemoryMarks - 1 {
		frame := c.rawRequest("echo", bytes.Repeat([]byte{9}, 80))
		c.put(&frame)
		if reply := c.takeFrame(); reply.CallID != c.lastID {
			t.Fatalf("reply to %d, want %d", reply.CallID, c.lastID)
		}
	}
	if stage := c.end.Marks().Stage(slow.CallID); stage != sharedmemory.StageStarted {
		t.Errorf("the mark of a running call says %d, want started", stage)
	}
	close(hold.release)
	if reply := c.takeFrame(); reply.CallID != slow.CallID || !bytes.Equal(reply.Payload, slow.Payload) {
		t.Errorf("reply to %d: %v", reply.CallID, reply.Payload)
	}
	if stage := c.end.Marks().Stage(slow.CallID); stage != sharedmemory.StageFinished {
		t.Errorf("the mark of an answered call says %d, want finished", stage)
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
	first, second := c.rawRequest("hold", nil), c.rawRequest("hold", nil)
	c.put(&first)
	<-hold.started
	c.put(&second)
	waitFor(t, "the second call to be received", func() bool {
		return c.end.Marks().Stage(second.CallID) == sharedmemory.StageReceived
	})
	c.send((&wire.Header{Type: wire.Pong}).Append(nil)) // breaks the protocol
	for c.takeFrame().Type != wire.Error {
	}
	c.wantEnd()
	close(hold.release)
	waitFor(t, "the first call to end", func() bool { return hold.ended.Load() > 0 })
	if stage := c.end.Marks().Stage(second.CallID); stage != sharedmemory.StageReceived || len(hold.started) > 0 {
		t.Errorf("the mark says %d and %d more calls started, want received and 0", stage, len(hold.started))
	}
}

func TestDrainThroughMemory(t *testing.T) {
	s := newServer(t)
	register(t, s, "echo", func(data []byte) []byte { return data })
	hold := newGate()
	register(t, s, "hold", func([]byte) []byte { hold.wait(); return nil })
	path, stop := serve(t, s, nil)
	c := connectWithMemory(t, path)
	call := c.rawRequest("hold", nil)
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
			slot := c.regions.SlotForTest(0)
			header.Put(slot[8:])
			damage(slot)
			c.regions.PublishForTest(0)
			c.send((&wire.Header{Type: wire.Wake}).Append(nil))
			frame := c.takeFrame()
			if code, _, _ := wire.SplitStatus(frame.Status); frame.Type != wire.Error || frame.CallID != 0 ||
				code != uint8(status.InvalidArgument) && code != uint8(status.ResourceExhausted) {
				t.Fatalf("%v for call %d, want an ERROR for the connection", frame.Type, frame.CallID)
			}
			c.wantEnd()
		})
	}
	frame := other.rawRequest("echo", []byte("still here"))
	other.put(&frame)
	if reply := other.takeFrame(); string(reply.Payload) != "still here" {
		t.Errorf("another caller got %q", reply.Payload)
	}
	if violations := s.Statistics().ViolationsTotal; violations != uint64(len(cases)) {
		t.Errorf("%d violations counted, want %d", violations, len(cases))
	}
}

// Near the user's share connections get less, then nothing, and all work.
func TestMemoryPerUser(t *testing.T) {
	base := int64(4096*3 + 2*128*wire.SharedMemorySlots)
	full := base + 2*wire.SharedMemoryArenaBytes
	s, path := serveEcho(t, server.WithSharedMemoryBytesPerUser(full+base))
	connectWithMemory(t, path)
	small := connectWithMemory(t, path)
	data := make([]byte, 1<<16)
	frame := small.rawRequest("echo", data)
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
	frame := c.rawRequest("echo", make([]byte, 64))
	frame.FunctionID, frame.Extensions = 1, nil
	frame.Length = 64
	for b.Loop() {
		c.lastID++
		frame.CallID = c.lastID
		if !c.end.Put(&frame.Header, nil, frame.Payload) {
			b.Fatal("no room")
		}
		if c.end.MustWake() {
			c.send((&wire.Header{Type: wire.Wake}).Append(nil))
		}
		for !c.end.Look(64) {
		}
		if _, err := c.end.Take(c.record, wire.FrameBytesMaxCeiling, nil); err != nil {
			b.Fatal(err)
		}
	}
}
