package server

import (
	"fmt"
	"os"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// framesAtOnce is how many frames are taken before the replies that wait for the
	// socket are flushed.
	framesAtOnce = 64
	// recordBytesKept is the size of the buffer that a sleeping connection keeps to
	// take frames into.
	recordBytesKept = 512
)

// A memory is what a connection has shared with its caller. It belongs to the reader,
// except for the sending half of end, which belongs to the output.
type memory struct {
	regions  *sharedmemory.Regions
	end      *sharedmemory.End
	waiter   *sharedmemory.Waiter
	parser   wire.Parser
	record   []byte // frames are taken into this; a larger one is lent and counted
	kept     keptPayload
	apart    sharedmemory.Apart
	grow     func(bytes int) []byte
	pool     *bufferPool
	share    *share
	untimed  int   // number of calls since the clock was read
	clockDue bool  // the clock must be read for the next call
	reserved int64 // bytes counted for the user
	stop     func() bool
}

// memoryAllowed reports whether the feature is accepted on this connection.
func (c *connection) memoryAllowed() bool {
	_, local := c.carrier.(transport.LocalConn)
	return local && c.service.sharedMemory
}

// giveMemory gives a busy connection its memory, once. If it cannot, everything goes on
// as before.
func (r *reader) giveMemory() {
	c := r.connection
	r.memoryDue = false
	geometry, reserved := c.server.reserveMemory(c.user)
	if reserved == 0 {
		c.server.memoryMissing(fmt.Errorf("user %d has limit shared_memory_bytes_per_user_max; option WithSharedMemoryBytesPerUser raises it to at most %d", c.peer.UserID, int64(wire.SharedMemoryBytesPerUserMaxCeiling)))
		return
	}
	regions, callerFile, serverFile, err := sharedmemory.Create(geometry)
	if err != nil {
		c.server.users.giveBackMemory(c.user, reserved)
		c.server.memoryMissing(err)
		return
	}
	defer callerFile.Close()
	defer serverFile.Close()
	r.useMemory(regions, reserved)
	if err := r.offerMemory(geometry, callerFile, serverFile); err != nil {
		r.memory.waiter.Close()
		r.returnMemory()
		if c.calls.history != nil {
			c.calls.history.move(0)
			r.beginMarks()
		}
		c.server.memoryMissing(err)
		return
	}
	c.server.counters.memories.Add(1)
	if c.server.config.observer != nil {
		c.observeMove()
	}
}

// offerMemory tells the caller of the memory. After an error the caller will never know
// of it, and nothing of the connection has used it.
func (r *reader) offerMemory(geometry sharedmemory.Geometry, files ...*os.File) error {
	c := r.connection
	offer := geometry.Offer(int(c.server.spinLimit() / time.Microsecond))
	frame := wire.Frame{Header: wire.Header{Type: wire.Memory, Descriptors: wire.MemoryDescriptors}, Payload: offer.Append(nil)}
	descriptors := make([]int, len(files))
	for i, file := range files {
		descriptors[i] = int(file.Fd())
	}
	return c.output.give(r.memory.end, frame.Append(nil), descriptors)
}

func (r *reader) useMemory(regions *sharedmemory.Regions, reserved int64) {
	c := r.connection
	end := regions.ServerEnd()
	r.memory = &memory{
		regions: regions, end: end, reserved: reserved,
		waiter: sharedmemory.NewWaiter(end, c.server.clock, c.service.spin, c.server.spinLimit(), &c.server.counters.sleeps),
		parser: wire.Parser{From: wire.CallerSide, FrameBytesMax: uint32(c.server.config.frameBytesMax),
			Features: r.parser.Features &^ (wire.FeatureSharedMemory | wire.FeatureDescriptors | wire.FeatureStores)},
		record: make([]byte, recordBytesKept), grow: growRecord(c.server.buffers, &c.user.input), pool: c.server.buffers, share: &c.user.input,
		stop: func() bool { return c.calls.draining.Load() || c.gate.Load() },
	}
	r.memory.kept.keeps = c.service.table.keepBytes
	r.memory.apart = r.memory.roomApart
	if r.marks = end.Marks(); c.calls.history != nil {
		c.calls.history.move(c.calls.accepted.Load() + 1)
	}
	r.memory.waiter.Awake()
}

// processMemory handles the frames in the ring, as processBuffered does those of the
// socket.
func (r *reader) processMemory() (goOn bool, err error) {
	m := r.memory
	if m == nil {
		return true, nil
	}
	for range framesAtOnce {
		taken, refused, err := m.takeFrame(&r.frame)
		if refused {
			r.refuseFrame()
			continue
		}
		if !taken || err != nil {
			return true, err
		}
		goOn, err = frameHandlers[r.frame.Type](r)
		if err != nil || !goOn {
			return goOn, err
		}
		m.dropKept()
	}
	return true, nil
}

// untimedMax is how many calls of instant functions are taken from a ring before the
// clock is read again. Reading it twice would cost a fifth of such a call. What depends
// on the clock counts in milliseconds, and is wrong by microseconds at most, because
// the clock is always read for the first call after a wait and after a function that is
// not instant.
const untimedMax = 16

// readClock sets nowNs for a request, by the clock if it is due.
func (r *reader) readClock(f *function) {
	m := r.memory
	if m != nil && !m.clockDue && m.untimed < untimedMax && f.instant() {
		m.untimed++
		return
	}
	r.nowNs = r.connection.server.clock.Ns()
	if m != nil {
		m.untimed, m.clockDue = 0, !f.instant()
	}
}

// isUntimed reports whether the clock was not read for the request.
func (m *memory) isUntimed() bool { return m != nil && m.untimed > 0 }

// awaitMemory waits for frames in the ring for as long as that pays. It reports whether
// to wait for the socket instead.
func (r *reader) awaitMemory() (sleep bool, err error) {
	m := r.memory
	if m == nil || m.stop() {
		return true, nil
	}
	if r.doneNs < r.nowNs {
		r.doneNs = r.connection.server.clock.Ns()
	}
	next := m.waiter.Await(r.nowNs, r.doneNs, m.stop)
	r.nowNs = max(r.nowNs, m.waiter.ReadNs())
	switch next {
	case sharedmemory.TakeFrames:
		return false, nil
	case sharedmemory.LookAtSocket:
		m.clockDue = true
		return false, r.lookAtSocket()
	}
	return true, nil
}

// lookAtSocket reads what has arrived, without waiting. It sets the same deadlines as
// waiting would: when a part of a frame has come, and when all parts have become
// frames.
func (r *reader) lookAtSocket() error {
	if err := r.makeRoom(r.parser.Need(r.input.unread())); err != nil {
		return err
	}
	if len(r.input.unread()) == 0 {
		if err := r.boundWait(); err != nil {
			return err
		}
	}
	former := len(r.input.unread())
	err := r.input.fillNow(r.connection.carrier.(transport.LocalConn))
	if err == nil {
		err = r.noteArrivals(former)
	}
	if err != nil || len(r.input.unread()) == former {
		return err
	}
	return r.boundWait()
}

// fallAsleep reports whether the socket may be waited for.
func (m *memory) fallAsleep() bool {
	if m == nil {
		return true
	}
	if !m.waiter.FallAsleep() {
		return false
	}
	if cap(m.record) > recordBytesKept {
		m.giveBackRecord()
		m.record = make([]byte, recordBytesKept)
	}
	return true
}

func (m *memory) awake() {
	if m != nil {
		m.waiter.Awake()
	}
}

// split returns what the next reader goes on with. The record stays behind, for a call
// that still uses it because it has been running for long.
func (m *memory) split() *memory {
	made := *m
	made.record, made.clockDue = make([]byte, recordBytesKept), true
	made.kept, made.apart = keptPayload{keeps: m.kept.keeps}, made.roomApart
	return &made
}

// recordCounted returns what is counted in the user's share for the record.
func (m *memory) recordCounted() int64 {
	if cap(m.record) <= recordBytesKept {
		return m.kept.counted
	}
	return int64(cap(m.record)) + m.kept.counted
}

// stopWaiting gives back the permit to spin, if the reader has one.
func (m *memory) stopWaiting() {
	if m != nil {
		m.waiter.Close()
	}
}

// returnMemory unmaps the memory. Preconditions: nothing of the connection uses it any
// more, or nothing ever has.
func (r *reader) returnMemory() {
	c := r.connection
	if r.memory == nil {
		return
	}
	c.output.take()
	// Closing fails only for what is not mapped.
	_ = r.memory.regions.Close()
	r.memory.giveBackRecord()
	r.memory.dropKept()
	c.server.users.giveBackMemory(c.user, r.memory.reserved)
	r.memory, r.marks = nil, nil
}

// give sends MEMORY, and from then on the ring may be used. After an error nothing was
// sent and the connection goes on without it. Any other failure closes the connection.
// Preconditions: the caller is the reader.
func (o *output) give(end *sharedmemory.End, frame []byte, descriptors []int) (refused error) {
	return o.sendDescriptors(frame, descriptors, nil, func() { o.memory = end })
}

// take ends the use of the ring.
func (o *output) take() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.memory = nil
}

// wakeFrame is the frame WAKE.
var wakeFrame = (&wire.Header{Type: wire.Wake}).Append(nil)

// wakeForBytesMin is the size from which on a payload is put into the ring even if the
// caller sleeps: copying it through the kernel would cost more than a WAKE.
const wakeForBytesMin = 16 << 10

// putLocked puts a frame into the ring if there is room and the caller looks there, or
// is worth waking. It reports whether it did.
func (o *output) putLocked(header *wire.Header, payload []byte, parts [][]byte) bool {
	if !o.looksAtMemoryLocked(int(header.Length)) {
		o.tellSleeperLocked()
		return false
	}
	if parts != nil && !o.memory.PutParts(header, parts) || parts == nil && !o.memory.Put(header, payload, nil) {
		return false
	}
	o.wakeSleeperLocked()
	return true
}

// putNow puts a frame of the reader's into the ring if the caller looks there, there is
// room, and nothing is counted that would have to be uncounted. That is so with nearly all
// replies. It reports whether it did. Whether the caller has fallen asleep meanwhile is
// left to the reader, which looks once for all frames that it has put: see wakeSleeper.
// more says that another frame will follow at once.
func (o *output) putNow(header *wire.Header, payload []byte, more bool) bool {
	header.Length = uint32(len(payload))
	o.mu.Lock()
	put := o.kept.counted == 0 && !o.broken && o.looksAtMemoryLocked(len(payload)) && o.memory.Put(header, payload, nil)
	if !put {
		o.mu.Unlock()
		return false
	}
	if !more {
		o.mu.Unlock() // not deferred, which would cost a thirtieth of a call through memory
		return true
	}
	ahead := o.memory.Ahead()
	o.mu.Unlock()
	ahead.Prefetch()
	return true
}

// wakeSleeper looks whether the caller has fallen asleep, perhaps without seeing what the
// reader has put into the ring, and adds a WAKE if it has. The caller flushes.
func (o *output) wakeSleeper(end *sharedmemory.End) {
	end.Fence()
	if !end.PeerSleeps() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.memory != nil {
		o.wakeSleeperLocked()
	}
}

func (o *output) wakeSleeperLocked() {
	if o.memory.MustWake() {
		o.tellSleeperLocked()
		o.pending = append(o.pending, wakeFrame...)
		o.waiting.Store(true)
	}
}

// tellSleeperLocked tells a caller that waits for the socket the time, from which it
// learns what its sleep has cost.
func (o *output) tellSleeperLocked() {
	if o.memory != nil && o.memory.PeerSleeps() {
		o.memory.TellSleeper(o.clock.Ns())
	}
}

// looksAtMemoryLocked reports whether the caller would find a frame with such a payload in the ring.
func (o *output) looksAtMemoryLocked(payloadBytes int) bool {
	return o.memory != nil && (payloadBytes >= wakeForBytesMin || !o.memory.PeerSleeps()) && o.memory.Attached()
}

// memoryTakesLocked reports whether putLocked would put such a frame, so that nothing
// of it waits.
func (o *output) memoryTakesLocked(payloadBytes int) bool {
	return o.looksAtMemoryLocked(payloadBytes) && o.memory.HasRoom(payloadBytes)
}

// reserveMemory counts the memory of one more connection for its user. Connections get whole
// arenas until those of the user take up half of what they may, then half as much, and in the
// end none. It returns 0 if there is no memory left.
func (s *Server) reserveMemory(u *user) (geometry sharedmemory.Geometry, reserved int64) {
	geometry = sharedmemory.Geometry{Slots: wire.SharedMemorySlots, Marks: wire.SharedMemoryMarks}
	whole, most := s.config.arenaBytes, s.config.memoryBytesPerUserMax
	for _, step := range [...]struct {
		arenaBytes int
		heldMax    int64
	}{{whole, most / 2}, {whole / 2 / arenaGranule * arenaGranule, most}, {0, most}} {
		geometry.ArenaBytes = step.arenaBytes
		if s.users.reserveMemory(u, geometry.Bytes(), most, step.heldMax) {
			return geometry, geometry.Bytes()
		}
	}
	return geometry, 0
}

// memoryMissing counts and logs a reason why there is no shared memory. Only the first
// reason is a warning; the others are for debugging.
func (s *Server) memoryMissing(reason error) {
	s.counters.memoriesMissing.Add(1)
	log := s.config.logger.Debug
	if s.memoryReported.CompareAndSwap(false, true) {
		log = s.config.logger.Warn
	}
	log("no shared memory for a connection, it goes on with the socket", "reason", reason)
}
