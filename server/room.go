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
func (c *connection) makeRoom(need int) error {
	if c.in.makeRoom(need) {
		return nil
	}
	if !c.speaksFrames() {
		return c.user.input.refusal(int64(need))
	}
	bytes, err := c.parser.Skip(c.in.unread(), &c.frame)
	if err != nil {
		return err
	}
	c.in.drop(bytes, int(c.frame.Descriptors))
	c.refuseFrame()
	c.out.flush()
	return nil
}

// speaksFrames reports whether the connection speaks in frames.
func (c *connection) speaksFrames() bool { return c.parser.From == wire.CallerSide }

// refuseFrame answers a request of which c.frame has only the header.
func (c *connection) refuseFrame() {
	if c.take() {
		c.sendFailure(c.frame.CallID, c.user.input.refusal(wire.HeaderBytes+int64(c.frame.Length)))
	}
}

// drop drops what has arrived of a request that was refused, and at its end the
// descriptors that came with it.
func (c *connection) drop() error {
	in := c.in
	in.dropUnread()
	if in.dropping.left > 0 || in.dropping.descriptors == 0 && !c.received.arrivals.Waiting() {
		return nil
	}
	came, err := c.received.arrivals.Take(in.taken-uint64(in.dropping.bytes), in.taken, in.dropping.descriptors)
	came.Close()
	return err
}

// takeFrame takes the next frame from the ring. If its user has no room for it, refused
// is true and c.frame has only the header.
func (m *memory) takeFrame(c *connection) (taken, refused bool, err error) {
	record, err := m.end.Take(m.record, c.server.config.frameBytesMax, m.grow)
	// A record that was lent is counted, whether or not there is a frame in it.
	if cap(record) > cap(m.record) {
		m.giveBackRecord()
		m.record = record
	}
	if err != nil {
		if errors.Is(err, sharedmemory.ErrNoRoom) {
			_, err = m.parser.Skip(record, &c.frame)
		}
		return false, err == nil, err
	}
	if record == nil {
		return false, false, nil
	}
	_, err = m.parser.Next(record, &c.frame)
	return true, false, err
}

// growRecord lends a larger record, or returns nil if the user has no room for it.
func (c *connection) growRecord(bytes int) []byte {
	bytes = pooledBytes(bytes)
	if !c.user.input.take(int64(bytes)) {
		return nil
	}
	return c.server.buffers.get(bytes)
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
