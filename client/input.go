package client

import (
	"bytes"
	"fmt"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	inputBytes   = 64 << 10
	frameTimeout = wire.FrameTimeoutMs * time.Millisecond
)

// An input holds bytes that were read and not parsed yet. Its buffer never grows: a
// frame that does not fit goes to its call in parts.
type input struct {
	buffer     []byte
	start, end int
	taken      uint64 // bytes of the stream that lie before start
	// bounded is set while there is a read deadline, and advanced once a frame was
	// completed since it was set.
	bounded, advanced bool
}

// A largeFrame is a REPLY or an ERROR of which a part has already gone to its call.
type largeFrame struct {
	header     wire.Header
	extensions []byte
	left       int // bytes of the payload still to come; 0 if there is no such frame
	failed     []byte
	received   transport.Descriptors
}

func (in *input) init(surplus []byte) {
	in.buffer = make([]byte, inputBytes)
	in.end = copy(in.buffer, surplus)
}

func (in *input) unread() []byte { return in.buffer[in.start:in.end] }

// compact makes the free end of the buffer as large as it can be and returns it.
// Preconditions: nothing aliases the buffer any more.
func (in *input) compact() []byte {
	in.end = copy(in.buffer, in.unread())
	in.start = 0
	return in.buffer[in.end:]
}

// advance takes n bytes from the front.
func (in *input) advance(n int) {
	in.start += n
	in.taken += uint64(n)
}

// partial reports whether a part of a frame has been read.
func (r *reader) partial() bool { return r.input.end > r.input.start || r.large.left > 0 }

// boundWait limits how long to wait for the rest of a frame.
func (c *connection) boundWait() error {
	in := &c.reader.input
	partial, renewed := c.reader.partial(), in.advanced
	in.advanced = false
	switch {
	case partial && (renewed || !in.bounded):
		in.bounded = true
		return c.boundRead(time.Now().Add(frameTimeout))
	case !partial && in.bounded:
		in.bounded = false
		return c.boundRead(time.Time{})
	}
	return nil
}

// startsLarge reports whether the frame at the front does not fit into the buffer and
// everything before its payload has been read. Preconditions: its header, if complete,
// was accepted.
func (r *reader) startsLarge() bool {
	unread := r.input.unread()
	if len(unread) < wire.HeaderBytes || wire.HeaderBytes+int(r.frame.Length) <= len(r.input.buffer) {
		return false
	}
	return len(unread) >= wire.HeaderBytes+int(r.frame.ExtensionBytes)
}

// beginLarge takes the frame's head. Only frames of the types that answer a call can be
// that large.
func (c *connection) beginLarge() error {
	r, in := &c.reader, &c.reader.input
	header := r.frame.Header
	payloadAt := wire.HeaderBytes + int(header.ExtensionBytes)
	extensions := bytes.Clone(in.unread()[wire.HeaderBytes:payloadAt])
	if err := wire.CheckExtensions(extensions); err != nil {
		return err
	}
	if err := c.deliver(); err != nil {
		return err
	}
	if err := r.takeDescriptors(&header); err != nil {
		return err
	}
	c.mu.Lock()
	used := header.CallID <= c.calls.lastID
	c.setPartial(in.unread()[:wire.HeaderBytes])
	r.noted = true
	c.mu.Unlock()
	if !used {
		return &wire.ProtocolError{Text: fmt.Sprintf("%v for call id %d, which was never used", header.Type, header.CallID)}
	}
	in.advance(payloadAt)
	r.large = largeFrame{header: header, extensions: extensions, left: int(header.Length - header.ExtensionBytes), received: r.received.takeFrame()}
	return nil
}

// continueLarge passes on what has arrived of the payload, and ends the frame after its
// last byte. The memory that is kept grows with what has arrived.
func (c *connection) continueLarge() (more bool, err error) {
	in, large := &c.reader.input, &c.reader.large
	part := in.unread()
	part = part[:min(len(part), large.left)]
	switch {
	case large.header.Type != wire.Error:
		c.passOn(part)
	case large.header.CallID == 0 || c.awaits(large.header.CallID):
		large.failed = appendPart(large.failed, part, large.left)
	default:
		large.failed = nil
	}
	in.advance(len(part))
	large.left -= len(part)
	if large.left > 0 {
		return false, nil
	}
	return true, c.endLarge()
}

// passOn appends a part of a reply to its call, if the call still waits.
func (c *connection) passOn(part []byte) {
	c.mu.Lock()
	r := c.calls.waitsFor(c.reader.large.header.CallID)
	if r == nil {
		c.mu.Unlock()
		return
	}
	r.replyMu.Lock()
	c.mu.Unlock()
	r.reply = appendPart(r.reply, part, c.reader.large.left)
	r.replyMu.Unlock()
}

// appendPart appends a part; left is how many bytes are announced from its first one
// on.
func appendPart(b, part []byte, left int) []byte {
	if cap(b)-len(b) < len(part) {
		room := min(len(b)+left, max(2*cap(b), len(b)+2*len(part)))
		b = append(make([]byte, 0, room), b...)
	}
	return append(b, part...)
}

// endLarge hands a large frame that is complete to its call.
func (c *connection) endLarge() error {
	large := c.reader.large
	c.reader.large, c.reader.input.advanced = largeFrame{}, true
	if large.header.Type == wire.Error {
		return c.handleError(&wire.Frame{Header: large.header, Extensions: large.extensions, Payload: large.failed})
	}
	return c.arrived(arrival{header: large.header, extensions: large.extensions, received: large.received})
}

// notePartial keeps the head of a frame that is not complete. If nothing more arrives,
// the head tells the outcome of its call.
func (c *connection) notePartial() {
	if c.reader.large.left > 0 {
		return
	}
	head := c.reader.input.unread()
	head = head[:min(len(head), wire.HeaderBytes)]
	if len(head) == 0 && !c.reader.noted {
		return
	}
	c.reader.noted = len(head) > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setPartial(head)
}

// setPartial sets the head that notePartial keeps. Preconditions: c.mu is held.
func (c *connection) setPartial(head []byte) {
	c.partial.n = copy(c.partial.head[:], head)
	clear(c.partial.head[c.partial.n:])
}
