package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// recordBytes is where frames are taken to; what does not fit goes to a
	// buffer of its own, which is given back above replyBytesKept.
	recordBytes = 16 << 10
	// framesAtOnce is how many frames are taken before the socket has its turn.
	framesAtOnce = 64
	// quickPayloadBytesMax is the size up to which sending takes so little that
	// a call waits for its reply from its begin on.
	quickPayloadBytesMax = 4 << 10
)

// A memory is what a busy connection shares with its server; spec/transports.md
// has the rules. Putting frames is guarded by connection.mu, and so is
// connection.memory; all else belongs to whoever has the role, who alone sets
// connection.memory and may read it without the lock.
//
// This side looks at the ring while a caller or the standby waits for replies. When
// nobody has the role a caller that spins has left it awake: a server that found it
// asleep between two calls would sleep as well, and have to be woken for the next. What
// the server puts there meanwhile the next call finds, or the standby, which the watch
// recalls, and which sleeps.
type memory struct {
	regions *sharedmemory.Regions
	end     *sharedmemory.End
	// firstID is the first call that the marks speak of.
	firstID uint64

	waiter    *sharedmemory.Waiter
	stop      func() bool
	context   context.Context // of the caller that reads, nil for the standby
	arrivedNs uint64          // when the last sleep ended
	idleNs    uint64          // since when a reply is waited for, 0: from now on

	parser wire.Parser
	frame  wire.Frame
	record []byte // frames whose calls have not been woken
	large  []byte // one that does not fit there
	grown  bool
	grow   func(bytes int) []byte
}

// memoryWanted reports whether shared memory is asked for.
func (c *Client) memoryWanted() bool {
	return c.address.Network == "unix" && !c.config.memoryOff && !c.address.SharedMemoryOff
}

// spin returns how to wait; the option counts before the address.
func (c *Client) spin() address.Spin {
	if c.config.spin != SpinAuto {
		return address.Spin(c.config.spin)
	}
	return c.address.Spin
}

// handleMemory takes the memory into use; where that cannot be, everything goes
// on as before.
func (c *connection) handleMemory(frame *wire.Frame) error {
	if c.memoryOffered {
		return &wire.ProtocolError{Text: "a second MEMORY"}
	}
	c.memoryOffered = true
	c.memoryCame()
	came := c.input.received.takeFrame()
	defer came.Close()
	made, err := c.attach(wire.ParseMemoryOffer(frame.Payload), came.Numbers)
	if err != nil {
		c.client.log.Warn("no shared memory, the connection goes on with the socket", "address", c.client.address, "reason", err)
		return nil
	}
	made.end.Awake()
	c.mu.Lock()
	defer c.mu.Unlock()
	made.firstID = c.pending.lastID + 1
	marks := made.regions.Geometry().Marks
	c.pending.marks, c.callsMax = marks, min(c.callsMax, marks)
	c.memory = made
	return nil
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
		waiter: sharedmemory.NewCallerWaiter(end, c.client.clock, c.client.spin(), spinLimit, &c.client.sleeps),
		parser: wire.Parser{From: wire.ServerSide, FrameBytesMax: c.input.parser.FrameBytesMax,
			Features: c.welcome.Accepted &^ (wire.FeatureSharedMemory | wire.FeatureDescriptors)}}
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
	return m
}

// handleWake has nothing to do: that something was read has woken this side.
func (c *connection) handleWake(*wire.Frame) error { return nil }

// wakeFrame is the frame WAKE.
var wakeFrame = (&wire.Header{Type: wire.Wake}).Append(nil)

// putLocked puts a frame into the ring if the server looks there and there is
// room. writer reports that WAKE is to be sent and the caller has become the
// writer, who must flush. Preconditions: c.mu is held.
func (c *connection) putLocked(header *wire.Header, body, further []byte) (put, writer bool) {
	m := c.memory
	if m == nil {
		return false, false
	}
	if m.end.PeerSleeps() {
		m.end.TellSleeper(c.client.clock.Ns())
		return false, false
	}
	if !m.end.Put(header, body, further) {
		return false, false
	}
	if m.end.MustWake() {
		c.output.pending = append(c.output.pending, wakeFrame...)
		writer = !c.output.writing
		c.output.writing = true
	}
	return true, writer
}

// lookForMemory waits for frames as long as that pays without sleeping, and
// reports whether the socket is to be waited for instead.
func (c *connection) lookForMemory() (sleep bool, err error) {
	m := c.memory
	if m == nil {
		return true, nil
	}
	if c.input.partial() {
		// More is on its way there.
		before := c.input.end - c.input.start
		err := c.lookAtSocket()
		return c.input.end-c.input.start == before && !m.end.Ready(), err
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

// lookAtSocket reads what is there without waiting.
func (c *connection) lookAtSocket() error {
	n, err := c.conn.(transport.LocalConn).ReadNow(c.input.compact())
	return c.filled(n, err)
}

// readAsleep waits for the socket, unless a frame has come meanwhile.
func (c *connection) readAsleep() error {
	m := c.memory
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

// readIdle waits for the socket where no call waits: how long that takes says
// nothing of what spinning is good for.
func (c *connection) readIdle() error {
	if !c.memory.settle() {
		return nil
	}
	err := c.readSocket()
	c.memory.end.Awake()
	return err
}

// leave is for a caller whose reply has come: another call may follow at once. It reports
// false where there is something to read. What comes later the next call finds, or the
// standby once the watch has recalled it.
func (m *memory) leave() bool { return m == nil || m.waiter.Leave() }

// settle falls asleep, before nobody reads for a while. It reports false where
// there is something to read.
func (m *memory) settle() bool {
	if m == nil {
		return true
	}
	m.waiter.Rest()
	return m.end.FallAsleep()
}

// consumeMemory handles frames that are in the ring.
func (c *connection) consumeMemory() error {
	m := c.memory
	if m == nil {
		return nil
	}
	for range framesAtOnce {
		if more, err := c.takeFrame(m); err != nil || !more {
			return err
		}
	}
	return nil
}

func (c *connection) takeFrame(m *memory) (more bool, err error) {
	if cap(m.record)-len(m.record) < sharedmemory.RecordBytesMin {
		if err := c.deliver(); err != nil {
			return false, err
		}
		m.record = m.record[:0]
	}
	m.grown = false
	frame, err := m.end.Take(m.record[len(m.record):], int(m.parser.FrameBytesMax), m.grow)
	if frame == nil || err != nil {
		return false, err
	}
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

// deliverLarge lets the buffer of a large frame be used again.
func (c *connection) deliverLarge(m *memory) error {
	err := c.deliver()
	m.record = m.record[:0]
	if cap(m.large) > replyBytesKept {
		m.large = nil
	}
	return err
}

// drainMemory handles what the server had put into the ring before the
// connection ended: no more than the ring holds, for a server that goes on
// putting must not keep the calls from ending. Preconditions: the caller has the
// role for good.
func (c *connection) drainMemory(cause error) {
	var broken *wire.ProtocolError
	if errors.As(cause, &broken) {
		return
	}
	if c.memory == nil {
		return
	}
	rounds := (c.memory.regions.Geometry().Slots + framesAtOnce - 1) / framesAtOnce
	for range rounds {
		err := c.consumeMemory()
		if failure := c.deliver(); err != nil || failure != nil {
			return
		}
		c.memory.record = c.memory.record[:0]
	}
}

// releaseMemory unmaps the memory. Preconditions: the caller has the role for
// good, nothing is sent any more, and the outcomes of all calls are decided.
func (c *connection) releaseMemory() {
	c.input.received.close()
	c.input.large.received.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory == nil {
		return
	}
	c.memory.waiter.Close()
	// It fails only for what is not mapped.
	_ = c.memory.regions.Close()
	c.memory = nil
}

// letCallersRun lets goroutines run that were just woken, before this one spins
// on their CPU.
func letCallersRun() { runtime.Gosched() }
