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
	parser     wire.Parser
	buffer     []byte
	start, end int
	taken      uint64 // bytes of the stream that lie before start
	// bounded is set while there is a read deadline, and advanced once a frame was
	// completed since it was set.
	bounded, advanced bool
	// noted is set while connection.partial is not empty.
	noted bool
	// loneReplies counts the replies in a row after which no call was waiting.
	loneReplies int

	frame wire.Frame
	batch []arrival
	large largeFrame

	received received
}

// A largeFrame is a REPLY or an ERROR of which a part has already gone to its call.
type largeFrame struct {
	header     wire.Header
	extensions []byte
	left       int // bytes of the payload still to come; 0 if there is no such frame
	failed     []byte
	received   transport.Descriptors
}

func (in *input) init(frameBytesMax uint32, accepted wire.Feature, surplus []byte) {
	in.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: frameBytesMax, Features: accepted}
	in.buffer = make([]byte, inputBytes)
	in.end = copy(in.buffer, surplus)
	in.loneReplies = loneRepliesMin - 1
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
func (in *input) partial() bool { return in.end > in.start || in.large.left > 0 }

// boundWait limits how long to wait for the rest of a frame.
func (c *connection) boundWait() error {
	in := &c.input
	partial, renewed := in.partial(), in.advanced
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

// countLone updates loneReplies after a batch of replies that left so many calls
// waiting.
func (in *input) countLone(replies, left int) {
	if replies > 1 || left > 0 {
		in.loneReplies = 0
		return
	}
	in.loneReplies++
}

// startsLarge reports whether the frame at the front does not fit into the buffer and
// everything before its payload has been read. Preconditions: its header, if complete,
// was accepted.
func (in *input) startsLarge() bool {
	unread := in.unread()
	if len(unread) < wire.HeaderBytes || wire.HeaderBytes+int(in.frame.Length) <= len(in.buffer) {
		return false
	}
	return len(unread) >= wire.HeaderBytes+int(in.frame.ExtensionBytes)
}

// beginLarge takes the frame's head. Only frames of the types that answer a call can be
// that large.
func (c *connection) beginLarge() error {
	in := &c.input
	header := in.frame.Header
	payloadAt := wire.HeaderBytes + int(header.ExtensionBytes)
	extensions := bytes.Clone(in.unread()[wire.HeaderBytes:payloadAt])
	if err := wire.CheckExtensions(extensions); err != nil {
		return err
	}
	if err := c.deliver(); err != nil {
		return err
	}
	if err := in.takeDescriptors(&header); err != nil {
		return err
	}
	c.mu.Lock()
	used := header.CallID <= c.pending.lastID
	c.setPartial(in.unread()[:wire.HeaderBytes])
	in.noted = true
	c.mu.Unlock()
	if !used {
		return &wire.ProtocolError{Text: fmt.Sprintf("%v for call id %d, which was never used", header.Type, header.CallID)}
	}
	in.advance(payloadAt)
	in.large = largeFrame{header: header, extensions: extensions, left: int(header.Length - header.ExtensionBytes), received: in.received.takeFrame()}
	return nil
}

// continueLarge passes on what has arrived of the payload, and ends the frame after its
// last byte. The memory that is kept grows with what has arrived.
func (c *connection) continueLarge() (more bool, err error) {
	in := &c.input
	part := in.unread()
	part = part[:min(len(part), in.large.left)]
	if in.large.header.Type == wire.Error {
		in.large.failed = appendPart(in.large.failed, part, in.large.left)
	} else {
		c.passOn(part)
	}
	in.advance(len(part))
	in.large.left -= len(part)
	if in.large.left > 0 {
		return false, nil
	}
	return true, c.endLarge()
}

// passOn appends a part of a reply to its call, if the call still waits.
func (c *connection) passOn(part []byte) {
	c.mu.Lock()
	r := c.pending.waitsFor(c.input.large.header.CallID)
	if r == nil {
		c.mu.Unlock()
		return
	}
	r.replyMu.Lock()
	c.mu.Unlock()
	r.reply = appendPart(r.reply, part, c.input.large.left)
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
	large := c.input.large
	c.input.large, c.input.advanced = largeFrame{}, true
	if large.header.Type == wire.Error {
		return c.handleError(&wire.Frame{Header: large.header, Extensions: large.extensions, Payload: large.failed})
	}
	return c.arrived(arrival{header: large.header, extensions: large.extensions, received: large.received})
}

// notePartial keeps the head of a frame that is not complete. If nothing more arrives,
// the head tells the outcome of its call.
func (c *connection) notePartial() {
	if c.input.large.left > 0 {
		return
	}
	head := c.input.unread()
	head = head[:min(len(head), wire.HeaderBytes)]
	if len(head) == 0 && !c.input.noted {
		return
	}
	c.input.noted = len(head) > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setPartial(head)
}

// setPartial sets the head that notePartial keeps. Preconditions: c.mu is held.
func (c *connection) setPartial(head []byte) {
	c.partial.n = copy(c.partial.head[:], head)
	clear(c.partial.head[c.partial.n:])
}
