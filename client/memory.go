package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/nearcall/nearcall/internal/peercred"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/spin"
)

const (
	// recordBytes is the size of the buffer into which frames are taken. A frame that
	// does not fit gets a buffer of its own, which is not kept if it is larger than
	// replyBytesKept.
	recordBytes = 16 << 10
	// framesAtOnce is how many frames are taken before the socket, and a caller that reads its
	// own time, are looked at again, and bytesAtOnce how much of them is read.
	framesAtOnce = 64
	bytesAtOnce  = 256 << 10
	// wakeForBytesMin is the size from which on a body is put into the ring even if the
	// server sleeps: copying it through the kernel would cost more than a WAKE.
	wakeForBytesMin = 16 << 10
	// quickPayloadBytesMax is the size up to which sending a payload takes so little
	// time that the call can be taken to wait for its reply from its beginning.
	quickPayloadBytesMax = 4 << 10
)

// A memory is what a busy connection shares with its server; spec/transports.md has the
// rules. It belongs to the reader, except for the sending half of end, which belongs to
// the output.
//
// This side looks at the ring while a caller or the standby waits for replies. When a
// caller that was spinning is done it leaves this side marked as awake, although nobody
// looks: a server that found it asleep between two calls would go to sleep as well, and
// would have to be woken for the next call. What the server puts there in the meantime
// is found by the next call. If none comes, the watch recalls the standby, which finds
// it and goes to sleep.
type memory struct {
	regions *sharedmemory.Regions
	end     *sharedmemory.End

	waiter    *sharedmemory.Waiter
	stop      func() bool
	context   context.Context // that of the caller that reads; nil if the standby does
	arrivedNs uint64          // when the last sleep has ended
	idleNs    uint64          // when waiting for a reply began; 0 means now

	parser wire.Parser
	frame  wire.Frame
	record []byte // frames whose calls have not been woken yet
	large  []byte // a frame that does not fit into record
	grown  bool
	grow   func(bytes int) []byte
	apart  sharedmemory.Apart // finds where an answer goes that need not go through record
	// dropped means that the frame's body was not read, because nobody waits for it, and read
	// is how much of a frame was.
	dropped bool
	read    int
	// trusted means that replies may be decoded where they lie.
	trusted bool
}

// memoryWanted reports whether to ask the server for shared memory.
func (e *endpoint) memoryWanted() bool {
	return e.address.Network == "unix" && !e.client.config.memoryOff && !e.address.SharedMemoryOff
}

// spin returns how to wait. The option takes precedence over the address.
func (e *endpoint) spin() spin.Mode {
	if mode := e.client.config.spin; mode != spin.Auto {
		return mode
	}
	return e.address.Spin
}

// handleMemory takes the memory into use. If it cannot, the connection goes on with its
// socket.
func (c *connection) handleMemory(frame *wire.Frame) error {
	if c.reader.memoryOffered {
		return &wire.ProtocolError{Text: "a second MEMORY"}
	}
	c.reader.memoryOffered = true
	c.memoryCame()
	came := c.reader.received.takeFrame()
	defer came.Close()
	made, err := c.attach(wire.ParseMemoryOffer(frame.Payload), came.Numbers)
	if err != nil {
		c.client.log.Warn("no shared memory, the connection goes on with the socket", "address", c.endpoint.address, "reason", err)
		return nil
	}
	made.end.Awake()
	c.useMemory(made)
	if c.client.config.observer != nil {
		c.observeMove()
	}
	return nil
}

// useMemory makes the calls that follow use the memory.
func (c *connection) useMemory(made *memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	marks := made.regions.Geometry().Marks
	c.calls.marks, c.callsMax = marks, min(c.callsMax, marks)
	c.marks = startMarks{marks: made.end.Marks(), firstID: c.calls.lastID + 1}
	c.reader.memory, c.output.memory = made, made.end
	c.traffic.moved = true
}

func (c *connection) attach(offer wire.MemoryOffer, descriptors []int) (*memory, error) {
	if len(descriptors) != wire.MemoryDescriptors {
		return nil, fmt.Errorf("%d of %d descriptors arrived; does this process have more of them open than RLIMIT_NOFILE (ulimit -n) lets it?",
			len(descriptors), wire.MemoryDescriptors)
	}
	geometry, err := sharedmemory.GeometryOf(offer)
	if err != nil {
		return nil, err
	}
	regions, err := sharedmemory.Attach(geometry, descriptors[0], descriptors[1])
	if err != nil {
		return nil, err
	}
	return c.newMemory(regions, time.Duration(min(offer.SpinUs, wire.SpinUsMax))*time.Microsecond), nil
}

func (c *connection) newMemory(regions *sharedmemory.Regions, spinLimit time.Duration) *memory {
	end := regions.CallerEnd()
	m := &memory{regions: regions, end: end, record: make([]byte, 0, recordBytes),
		waiter: sharedmemory.NewCallerWaiter(end, c.client.clock, c.endpoint.spin(), spinLimit, &c.client.sleeps),
		parser: wire.Parser{From: wire.ServerSide, FrameBytesMax: c.reader.parser.FrameBytesMax,
			Features: c.welcome.Accepted &^ (wire.FeatureSharedMemory | wire.FeatureDescriptors | wire.FeatureStores)}}
	m.stop = func() bool {
		return c.role.interrupted.Load() || m.context != nil && m.context.Err() != nil
	}
	m.grow = func(bytes int) []byte {
		m.grown = true
		if cap(m.large) < bytes {
			m.large = make([]byte, bytes)
		}
		return m.large[:bytes]
	}
	m.apart = func(header []byte, _ int) sharedmemory.Place { return c.placeOf(header) }
	m.trusted = c.isTrusted()
	return m
}

// isTrusted reports whether the server, or the program that made its listener, is of this
// user. What such a server changes while it is read, it might as well have sent. The user
// that stands for those of other namespaces is nobody's.
func (c *connection) isTrusted() bool {
	conn, ok := c.carrier.(net.Conn)
	if !ok {
		return false
	}
	server, err := peercred.Get(conn)
	return err == nil && server.UserID == uint32(os.Geteuid()) && server.UserID != peercred.OverflowUserID
}

// placeOf returns where the call wants its reply, for a frame that is nothing but a reply to
// a call that still waits. The bodies of answers that nobody waits for are left where they are,
// except for the extensions that name a store.
func (c *connection) placeOf(head []byte) sharedmemory.Place {
	header := wire.ParseHeader(head)
	if !answersCall(&header) || header.ExtensionBytes == header.Length {
		return sharedmemory.Place{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.awaitsLocked(header.CallID) {
		c.reader.memory.dropped = true
		return sharedmemory.Place{Drop: true}
	}
	r := c.calls.waitsFor(header.CallID)
	if r == nil || header.Type != wire.Reply || header.ExtensionBytes > 0 {
		return sharedmemory.Place{}
	}
	r.replyMu.Lock()
	c.reader.direct, r.reply = r, r.reply[:r.replyStart]
	if r.decode != nil && c.reader.memory.trusted && header.Codec == r.codec {
		return sharedmemory.Place{Read: r.decode}
	}
	return sharedmemory.Place{To: &r.reply}
}

// handleWake does nothing: reading the frame has already woken this side.
func (c *connection) handleWake(*wire.Frame) error { return nil }

// wakeFrame is the frame WAKE.
var wakeFrame = (&wire.Header{Type: wire.Wake}).Append(nil)

// putLocked puts a frame into the ring if the server looks there, or is worth waking, and
// there is room.
// writer means that a WAKE must be sent: the caller has become the writer and must
// flush. Preconditions: c.mu is held.
func (c *connection) putLocked(header *wire.Header, body, further []byte) (put, writer bool) {
	if !c.looksAtMemoryLocked(int(header.Length)) || !c.output.memory.Put(header, body, further) {
		return false, false
	}
	return true, c.wakeLocked()
}

// putRequestLocked is putLocked for the request of a call.
func (c *connection) putRequestLocked(r *call) (put, writer bool) {
	if len(r.beside.Pieces) == 0 {
		return c.putLocked(&r.header, r.head[wire.HeaderBytes:], r.payload)
	}
	if !c.looksAtMemoryLocked(int(r.header.Length)) || !c.output.memory.PutParts(&r.header, r.frameParts(r.head[wire.HeaderBytes:])) {
		return false, false
	}
	return true, c.wakeLocked()
}

// looksAtMemoryLocked reports whether the server would find a body of so many bytes in the
// ring: it looks there, or is worth waking.
func (c *connection) looksAtMemoryLocked(bytes int) bool {
	end := c.output.memory
	if end == nil {
		return false
	}
	if end.PeerSleeps() {
		end.TellSleeper(c.client.clock.Ns())
		return bytes >= wakeForBytesMin && end.Attached()
	}
	return true
}

// wakeLocked wakes a server that has fallen asleep meanwhile. It reports whether the caller
// has become the writer.
func (c *connection) wakeLocked() (writer bool) {
	mustWake := c.output.memory.MustWake()
	if c.calls.used > 1 {
		c.output.memory.Ahead().Prefetch()
	}
	if !mustWake {
		return false
	}
	c.output.pending = append(c.output.pending, wakeFrame...)
	writer = !c.output.writing
	c.output.writing = true
	return writer
}

// lookForMemory waits for frames in the ring for as long as waiting without sleeping
// pays. It reports whether to wait for the socket instead.
func (c *connection) lookForMemory() (sleep bool, err error) {
	m := c.reader.memory
	if m == nil {
		return true, nil
	}
	if c.reader.partial() {
		// There is more on its way.
		before := c.reader.input.end - c.reader.input.start
		err := c.lookAtSocket()
		return c.reader.input.end-c.reader.input.start == before && !m.end.Ready(), err
	}
	idleNs := m.idleNs
	if m.idleNs = 0; idleNs == 0 {
		idleNs = c.client.clock.Ns()
	}
	switch m.waiter.Await(m.arrivedNs, idleNs, m.stop) {
	case sharedmemory.TakeFrames:
		return false, nil
	case sharedmemory.LookAtSocket:
		return false, c.lookAtSocket()
	}
	return true, nil
}

// lookAtSocket reads what has arrived at the socket, without waiting.
func (c *connection) lookAtSocket() error {
	n, err := c.carrier.(transport.LocalConn).ReadNow(c.reader.input.compact())
	return c.filled(n, err)
}

// readAsleep waits for the socket, unless a frame has appeared in the ring meanwhile.
func (c *connection) readAsleep() error {
	m := c.reader.memory
	if m == nil {
		return c.readSocket()
	}
	if !m.waiter.FallAsleep() {
		return nil
	}
	err := c.readSocket()
	m.arrivedNs = c.client.clock.Ns()
	m.waiter.Awake()
	return err
}

// readIdle waits for the socket while no call waits. How long that takes says nothing
// about whether spinning would have paid.
func (c *connection) readIdle() error {
	if !c.reader.memory.settle() {
		return nil
	}
	err := c.readSocket()
	c.reader.memory.end.Awake()
	return err
}

// leave is called when the reply that a caller waited for has come, as another call may
// follow at once. It reports false if there is something to read. What arrives later is
// found by the next call, or by the standby when the watch has recalled it.
func (m *memory) leave() bool { return m == nil || m.waiter.Leave() }

// settle goes to sleep, because nobody will read for a while. It reports false if there
// is something to read.
func (m *memory) settle() bool {
	if m == nil {
		return true
	}
	m.waiter.Rest()
	return m.end.FallAsleep()
}

// consumeMemory handles the frames that are in the ring.
func (c *connection) consumeMemory() error {
	m := c.reader.memory
	if m == nil {
		return nil
	}
	_, err := c.takeFrames(m, framesAtOnce)
	return err
}

// takeFrames takes so many frames at most, and no more than may follow each other at once.
func (c *connection) takeFrames(m *memory, most int) (taken int, err error) {
	for read := 0; taken < most && read < bytesAtOnce; taken++ {
		if more, err := c.takeFrame(m); err != nil || !more {
			return taken, err
		}
		read += m.read
	}
	return taken, nil
}

func (c *connection) takeFrame(m *memory) (more bool, err error) {
	if cap(m.record)-len(m.record) < sharedmemory.RecordBytesMin {
		if err := c.deliver(); err != nil {
			return false, err
		}
		m.record = m.record[:0]
	}
	m.grown, m.dropped, m.read = false, false, 0
	frame, err := m.end.TakeApart(m.record[len(m.record):], int(m.parser.FrameBytesMax), m.grow, m.apart)
	direct := c.reader.direct
	if direct != nil {
		c.reader.direct = nil
		direct.replyMu.Unlock()
	}
	if frame == nil || err != nil {
		return false, err
	}
	if direct != nil || m.dropped {
		return true, c.arrivedApart(m, frame)
	}
	m.read = len(frame)
	if _, err := m.parser.Next(frame, &m.frame); err != nil {
		return false, err
	}
	if err := frameHandlers[m.frame.Type](c, &m.frame); err != nil {
		return false, err
	}
	if m.grown {
		return true, c.deliverLarge(m)
	}
	m.record = m.record[:len(m.record)+len(frame)]
	return true, nil
}

// arrivedApart is what follows a reply whose payload is with its call already, or an answer that
// nobody waits for.
func (c *connection) arrivedApart(m *memory, head []byte) error {
	if _, err := m.parser.Skip(head, &m.frame); err != nil {
		return err
	}
	if !m.dropped {
		m.read = int(m.frame.Length)
	}
	return c.arrived(arrival{header: m.frame.Header})
}

// deliverLarge delivers what has been taken, so that the buffer of a large frame may be
// used again.
func (c *connection) deliverLarge(m *memory) error {
	err := c.deliver()
	m.record = m.record[:0]
	if cap(m.large) > replyBytesKept {
		m.large = nil
	}
	return err
}

// drainMemory handles what the server had put into the ring before the connection
// ended. It takes no more than the ring can hold, so that a server that goes on putting
// frames there cannot keep the calls from ending. Preconditions: the caller has taken
// the role and nobody else will have it again.
func (c *connection) drainMemory(cause error) {
	var broken *wire.ProtocolError
	if errors.As(cause, &broken) {
		return
	}
	if c.reader.memory == nil {
		return
	}
	for left := c.reader.memory.regions.Geometry().Slots; left > 0; {
		taken, err := c.takeFrames(c.reader.memory, min(left, framesAtOnce))
		if failure := c.deliver(); taken == 0 || err != nil || failure != nil {
			return
		}
		left -= taken
		c.reader.memory.record = c.reader.memory.record[:0]
	}
}

// releaseMemory unmaps the memory. Preconditions: the caller has taken the role and
// nobody else will have it again, nothing is sent any more, and the outcomes of all
// calls are decided.
func (c *connection) releaseMemory() {
	c.stores.close()
	c.reader.received.close()
	c.reader.large.received.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reader.memory == nil {
		return
	}
	c.reader.memory.waiter.Close()
	// Closing fails only for what is not mapped.
	_ = c.reader.memory.regions.Close()
	c.reader.memory, c.output.memory, c.marks = nil, nil, startMarks{}
}

// letCallersRun lets goroutines that were just woken run before this one spins on their
// CPU.
func letCallersRun() { runtime.Gosched() }
