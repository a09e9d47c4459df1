package server

import (
	"errors"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

// makeRoom makes room to read on when the message at the front has need bytes in all.
// If the user has no room, a request is refused, and the rest of it is dropped as it
// arrives. A connection of the simple protocol ends instead, because answers there have
// no number.
func (r *reader) makeRoom(need int) error {
	c := r.connection
	if r.input.makeRoom(need) {
		return nil
	}
	if !r.speaksFrames() {
		return c.user.input.refusal(int64(need))
	}
	bytes, err := r.parser.Skip(r.input.unread(), &r.frame)
	if err != nil {
		return err
	}
	r.input.drop(bytes, int(r.frame.Descriptors))
	r.refuseFrame()
	c.output.flush()
	return nil
}

// speaksFrames reports whether the connection speaks in frames.
func (r *reader) speaksFrames() bool { return r.parser.From == wire.CallerSide }

// refuseFrame answers a request of which r.frame has only the header.
func (r *reader) refuseFrame() {
	if r.take() {
		r.refuse(nil, r.connection.user.input.refusal(wire.HeaderBytes+int64(r.frame.Length)))
	}
}

// drop drops what has arrived of a request that was refused, and at its end the
// descriptors that came with it.
func (r *reader) drop() error {
	in := &r.input
	in.dropUnread()
	if in.dropping.left > 0 || in.dropping.descriptors == 0 && !r.received.arrivals.Waiting() {
		return nil
	}
	came, err := r.received.arrivals.Take(in.taken-uint64(in.dropping.bytes), in.taken, in.dropping.descriptors)
	came.Close()
	return err
}

// takeFrame takes the next frame from the ring. If its user has no room for it, refused
// is true and frame has only the header.
func (m *memory) takeFrame(frame *wire.Frame) (taken, refused bool, err error) {
	record, err := m.end.TakeApart(m.record, int(m.parser.FrameBytesMax), m.grow, m.apart)
	// A record that was lent is counted, whether or not there is a frame in it.
	if cap(record) > cap(m.record) {
		m.giveBackRecord()
		m.record = record
	}
	if err != nil {
		if errors.Is(err, sharedmemory.ErrNoRoom) {
			_, err = m.parser.Skip(record, frame)
		}
		return false, err == nil, err
	}
	if record == nil {
		return false, false, nil
	}
	if m.kept.payload == nil {
		_, err = m.parser.Next(record, frame)
		return true, false, err
	}
	_, err = m.parser.Skip(record, frame)
	frame.Payload = m.kept.payload
	return true, false, err
}

// A keptPayload is the payload of the frame that was taken last, if its function may keep
// parts of it. Then it has memory of its own, which is counted until the frame has been
// handled, or, if the call runs for longer, until that has ended.
type keptPayload struct {
	keeps   func(functionID uint32) bool // whether the function may keep parts of payloads
	payload []byte
	counted int64
}

// roomApart makes payloads that functions may keep go apart. What comes by a way on which
// there is no room for that is copied, and decoding copies it again.
func (m *memory) roomApart(head []byte, bytes int) sharedmemory.Place {
	header := wire.ParseHeader(head)
	if header.Type != wire.Request || header.Codec != wire.CodecMessagePack && header.Codec != wire.CodecPacked || header.ExtensionBytes > 0 {
		return sharedmemory.Place{}
	}
	if !m.kept.keeps(header.FunctionID) || !m.share.take(int64(bytes)) {
		return sharedmemory.Place{}
	}
	m.kept.counted = int64(bytes)
	return sharedmemory.Place{To: &m.kept.payload}
}

// dropKept gives back what was counted for the payload.
func (m *memory) dropKept() {
	if m != nil && m.kept.counted > 0 {
		m.share.giveBack(m.kept.counted)
		m.kept.payload, m.kept.counted = nil, 0
	}
}

// hasKept reports whether the payload of the last frame may be kept.
func (m *memory) hasKept() bool { return m != nil && m.kept.payload != nil }

// takeKept returns that payload, and how much is counted for it until it is given back.
func (m *memory) takeKept() (payload []byte, counted int64) {
	payload, counted = m.kept.payload, m.kept.counted
	m.kept.payload, m.kept.counted = nil, 0
	return payload, counted
}

// givePayload gives a call that runs apart the payload of the last frame, as a copy unless
// nobody else has it. It reports false if the user has no room for that.
func (r *reader) givePayload(e *execution) bool {
	if !r.memory.hasKept() {
		return e.copyPayload(r.frame.Payload)
	}
	e.payload, e.counted = r.memory.takeKept()
	e.owned = true
	return true
}

// growRecord returns a function that lends a larger record, or returns nil if the user
// has no room for it.
func growRecord(pool *bufferPool, of *share) func(bytes int) []byte {
	return func(bytes int) []byte {
		bytes = pooledBytes(bytes)
		if !of.take(int64(bytes)) {
			return nil
		}
		return pool.get(bytes)
	}
}

// giveBackRecord gives back a record that was lent.
func (m *memory) giveBackRecord() {
	if cap(m.record) > recordBytesKept {
		m.pool.put(m.record[:cap(m.record)])
		m.share.giveBack(int64(cap(m.record)))
	}
}

// copyPayload makes the execution's own copy of its payload. The copy counts until the
// call has ended, because the call may wait for its turn for long.
func (e *execution) copyPayload(payload []byte) bool {
	if len(payload) > inputBytesFree {
		if !e.connection.user.input.take(int64(len(payload))) {
			return false
		}
		e.counted = int64(len(payload))
	}
	e.payload = append([]byte(nil), payload...)
	return true
}

// uncount uncounts what was counted for the call.
func (e *execution) uncount() {
	e.connection.user.input.giveBack(e.counted)
	e.counted = 0
	e.dropScratch()
}
