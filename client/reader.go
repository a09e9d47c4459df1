package client

import (
	"fmt"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// An arrival is a terminal frame whose call has not been woken yet. Its extensions and
// its payload alias the input.
type arrival struct {
	header     wire.Header
	extensions []byte
	payload    []byte
	received   transport.Descriptors
	stored     *storedPayload
	failure    *status.Error
	call       *call
}

// A reader is what belongs to the goroutine that has the role: no other may use it.
type reader struct {
	input    input
	received received
	parser   wire.Parser
	frame    wire.Frame
	batch    []arrival
	large    largeFrame
	// noted is set while connection.partial is not empty.
	noted bool
	// loneReplies counts the replies in a row after which no call was waiting.
	loneReplies int
	// own is the call of the goroutine that has the role, or nil if that is the standby.
	own *call
	// unwatch ends the watch over the context of the caller that reads, if there is one.
	unwatch func() bool

	// memory is nil until the server has offered some and it is in use.
	memory        *memory
	memoryOffered bool
	// direct is the call whose reply is being copied straight to where the call wants it;
	// its replyMu is locked.
	direct *call
}

func (r *reader) init(frameBytesMax uint32, accepted wire.Feature, surplus []byte) {
	r.input.init(surplus)
	r.parser = wire.Parser{From: wire.ServerSide, FrameBytesMax: frameBytesMax, Features: accepted}
	r.loneReplies = loneRepliesMin - 1
}

// countLone updates loneReplies after a batch of replies that left so many calls
// waiting.
func (r *reader) countLone(replies, left int) {
	if replies > 1 || left > 0 {
		r.loneReplies = 0
		return
	}
	r.loneReplies++
}

// batchMax bounds how many calls are woken together.
const batchMax = 64

// frameHandlers handle whole frames, by type. The goroutine that reads calls them. The parser
// refuses frames of any other type.
var frameHandlers = [...]func(*connection, *wire.Frame) error{
	wire.Reply:  (*connection).handleReply,
	wire.Error:  (*connection).handleError,
	wire.Ping:   (*connection).handlePing,
	wire.Pong:   (*connection).handlePong,
	wire.Drain:  (*connection).handleDrain,
	wire.Wake:   (*connection).handleWake,
	wire.Memory: (*connection).handleMemory,
}

// read is the connection's own goroutine. It parses what the server sends until the
// connection ends, and rests while callers that are alone do that for themselves; see
// role.
func (c *connection) read() {
	defer close(c.ended)
	cause := c.readFrames()
	c.drainMemory(cause)
	c.end(cause)
	c.releaseMemory()
}

func (c *connection) readFrames() error {
	for {
		if err := c.consume(); err != nil {
			return err
		}
		if c.rests() && c.reader.loneReplies >= loneRepliesMin {
			if err := c.rest(); err != nil {
				return err
			}
		}
		if err := c.readMore(); err != nil {
			return err
		}
	}
}

// readMore waits, for the standby, until something has arrived.
func (c *connection) readMore() error {
	if c.reader.memory == nil {
		return c.readSocket()
	}
	letCallersRun()
	if !c.reader.memory.end.Ready() && !c.callsWait() {
		return c.readIdle()
	}
	// A ring that is never empty must not keep the socket from being read.
	sleep, err := c.lookForMemory()
	if err != nil || !sleep {
		return err
	}
	return c.readAsleep()
}

func (c *connection) callsWait() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls.waiting > 0
}

// readSocket reads once. If a part of a frame has arrived, it waits for the rest for a
// limited time only.
func (c *connection) readSocket() error {
	if err := c.boundWait(); err != nil {
		return err
	}
	n, err := c.carrier.Read(c.reader.input.compact())
	if n > 0 {
		c.heard()
	}
	return c.filled(n, err)
}

// consume handles all frames that have arrived and then wakes their calls. If a frame
// is broken, those before it count.
func (c *connection) consume() error {
	err := c.consumeMemory()
	for more := err == nil; more && err == nil; {
		if c.reader.large.left > 0 {
			more, err = c.continueLarge()
		} else {
			more, err = c.handleNext()
		}
	}
	if failure := c.deliver(); err == nil {
		err = failure
	}
	if c.reader.memory != nil {
		c.reader.memory.record = c.reader.memory.record[:0]
	}
	if err == nil {
		c.notePartial()
		err = c.reader.checkDescriptors()
	}
	return err
}

// handleNext handles the next frame. more is false if it has not arrived completely.
func (c *connection) handleNext() (more bool, err error) {
	r, in := &c.reader, &c.reader.input
	taken, err := r.parser.Next(in.unread(), &r.frame)
	switch {
	case err != nil:
		return false, err
	case taken > 0:
		if err := r.takeDescriptors(&r.frame.Header); err != nil {
			return false, err
		}
		in.advance(taken)
		in.advanced = true
		return true, frameHandlers[r.frame.Type](c, &r.frame)
	case r.startsLarge():
		return true, c.beginLarge()
	}
	return false, nil
}

func (c *connection) handleReply(frame *wire.Frame) error {
	a := arrival{header: frame.Header, extensions: frame.Extensions, payload: frame.Payload, received: c.reader.received.takeFrame()}
	if frame.ExtensionBytes > 0 {
		var err error
		if a.stored, err = c.storedIn(frame, &a.received); err != nil {
			a.received.Close()
			return err
		}
	}
	return c.arrived(a)
}

// answersCall reports whether a frame is the answer to a call.
func answersCall(header *wire.Header) bool {
	return header.Type == wire.Reply || header.Type == wire.Error && header.CallID != 0
}

// awaitsLocked reports whether somebody may wait for the answer to the call. Nobody ever does once it
// has said no. Preconditions: c.mu is held.
func (c *connection) awaitsLocked(id uint64) bool {
	return id > c.calls.lastID || c.calls.waitsFor(id) != nil
}

func (c *connection) awaits(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.awaitsLocked(id)
}

// handleError does not read the payload of an error that nobody waits for.
func (c *connection) handleError(frame *wire.Frame) error {
	if frame.CallID != 0 && !c.awaits(frame.CallID) {
		return c.arrived(arrival{header: frame.Header})
	}
	failure, err := parseFailure(frame.Header, frame.Payload)
	if err != nil {
		return err
	}
	if frame.CallID == 0 {
		// Only a caller that broke the protocol is told so; the connection ends with
		// that.
		return fmt.Errorf("the server ends it: %s", failure.Message)
	}
	return c.arrived(arrival{header: frame.Header, extensions: frame.Extensions, failure: failure})
}

// parseFailure reads the failure in an ERROR.
func parseFailure(header wire.Header, payload []byte) (*status.Error, error) {
	number, outcome, valid := wire.SplitStatus(header.Status)
	if !valid || number == uint8(status.OK) || number >= localCodesMin || header.Codec != wire.CodecMessagePack {
		return nil, &wire.ProtocolError{Text: fmt.Sprintf("ERROR with status 0x%x and %v payload", header.Status, header.Codec)}
	}
	message, details, err := codec.DecodeFailure(payload)
	if err != nil {
		return nil, &wire.ProtocolError{Text: err.Error()}
	}
	failure := &status.Error{Code: status.Code(number), Outcome: status.Outcome(outcome), Message: message, Details: details}
	if number > uint8(status.Unauthenticated) {
		failure.Code = status.Unknown
	}
	if failure.Outcome == status.OutcomeNone || failure.Outcome > status.OutcomeExecuted {
		failure.Outcome = status.OutcomeUnknown
	}
	return failure, nil
}

// localCodesMin is the lowest of the codes that are never sent.
const localCodesMin = 100

// arrived adds an arrival to the batch.
func (c *connection) arrived(a arrival) error {
	c.reader.batch = append(c.reader.batch, a)
	if len(c.reader.batch) == batchMax {
		return c.deliver()
	}
	return nil
}

// deliver takes the calls of a batch out of the table, under one lock, then gives them
// their answers and wakes them.
func (c *connection) deliver() error {
	batch := c.reader.batch
	if len(batch) == 0 {
		return nil
	}
	var err error
	c.mu.Lock()
	for i := range batch {
		id := batch[i].header.CallID
		batch[i].call, _ = c.calls.take(id)
		c.traffic.countAnswer(&batch[i].header)
		switch {
		case batch[i].call == nil && batch[i].stored != nil && len(c.output.pending) >= wire.PendingOutputBytesMax:
			err = &wire.ProtocolError{Text: "a REPLY in a store after the other, and no RELEASE is read"}
		case id > c.calls.lastID:
			err = &wire.ProtocolError{Text: fmt.Sprintf("%v for call id %d, which was never used", batch[i].header.Type, id)}
		}
	}
	c.offerPlaces()
	c.reader.countLone(len(batch), c.calls.used)
	unused := c.leaving && c.calls.waiting == 0
	c.mu.Unlock()
	for i := range batch {
		batch[i].wake(c)
	}
	clear(batch)
	c.reader.batch = batch[:0]
	if unused {
		c.close(&loss{cause: errLeft})
	}
	return err
}

// wake gives the call its answer and wakes it, unless the call was given up. The goroutine that has
// the role is awake, and its own call is only told.
func (a *arrival) wake(c *connection) {
	r := a.call
	if r == nil {
		a.received.Close()
		c.giveBack(a.stored)
		return
	}
	if r.stored = a.stored; r.stored != nil {
		a.received.Close() // of a store that could not be used
		a.received = transport.Descriptors{}
	}
	if r.files.Put(a.received.Numbers); a.received.Truncated {
		a.failure = descriptorsLost()
	}
	r.reply = append(r.reply, a.payload...)
	r.replyCodec, r.functionID = a.header.Codec, a.header.FunctionID
	r.takeMetadata(a.extensions)
	if len(a.extensions) > 0 && c.welcome.Accepted&wire.FeatureDirections != 0 && r.header.FunctionID == 0 && a.failure == nil {
		c.client.directions.note(c, r.name, a.extensions)
	}
	if r == c.reader.own {
		r.failure, r.answered = a.failure, true
		return
	}
	r.finish(a.failure)
}

func (c *connection) handlePing(frame *wire.Frame) error {
	c.mu.Lock()
	flooded := len(c.output.pending) >= wire.PendingOutputBytesMax
	writer := !flooded && c.appendLocked(&wire.Frame{Header: wire.Header{Type: wire.Pong}, Payload: frame.Payload})
	c.mu.Unlock()
	if flooded {
		return &wire.ProtocolError{Text: "PING after PING, and no PONG is read"}
	}
	if writer {
		c.flush()
	}
	return nil
}

// takeStopped removes the calls that had not been sent when sending stopped. For one
// that is being written directly that is not known, so it stays. Preconditions: c.mu is
// held.
func (c *connection) takeStopped() []*call {
	if !c.output.gathering.TryLock() {
		return nil
	}
	defer c.output.gathering.Unlock()
	return c.calls.takeUnsent(c.takenID())
}

// handleDrain ends sending on this connection. Calls up to the id in the frame will be
// answered; those above it were not executed.
func (c *connection) handleDrain(frame *wire.Frame) error {
	if err := c.deliver(); err != nil {
		return err
	}
	c.mu.Lock()
	c.leaveLocked()
	refused := append(c.calls.takeAbove(frame.CallID), c.takeStopped()...)
	unused := c.calls.waiting == 0
	c.mu.Unlock()
	reason := "the server is stopping"
	if len(frame.Payload) > 0 {
		reason += ": " + string(frame.Payload)
	}
	for _, r := range refused {
		r.finish(notExecuted(status.Unavailable, "%s", reason))
	}
	if unused {
		c.close(&loss{cause: errLeft})
	}
	return nil
}
