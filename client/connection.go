package client

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
)

// A connection is a carrier over which a hello was accepted. It is open at first. It is left
// when nothing may be sent on it any more, because of DRAIN or because a write failed;
// replies may still arrive. It ends with its reader.
type connection struct {
	client   *core
	endpoint *endpoint
	carrier  transport.OfferingCarrier
	local    bool // the server is on this machine
	secure   bool // it is called over TLS
	// looks is the carrier if a caller must look, before it sends, at what has come while
	// nobody read; nil for a local socket, of which the kernel tells what was not read.
	looks   transport.QuietCarrier
	welcome wire.Welcome
	// clockAheadNs is how far the server's clock is ahead of ours. Deadlines on the
	// shared clock are sent with this much added.
	clockAheadNs uint64
	functions    *functionTable
	stores       storeTable
	silence      silence
	counted      *countedCarrier // the carrier, if that may say what was not delivered

	// left is closed when nothing may be sent any more, and ended when the reader has
	// returned.
	left  chan struct{}
	ended chan struct{}

	// mu protects state.
	mu sync.Mutex
	state

	// reader belongs to the goroutine that has the role.
	reader reader

	// observed is what an observer is told of the connection, nil without an observer.
	observed atomic.Pointer[observe.Connection]
}

// A state is what the goroutines that share a connection change together. Its parts need
// no locks of their own, except for what output says.
type state struct {
	leaving  bool
	calls    callTable
	callsMax int // how many calls may be in flight
	output   output
	places   placeQueue
	expiry   expiry
	pings    pingTable
	partial  partialFrame
	role     role
	marks    startMarks
	// closing is why this side has closed the connection, or nil if it has not.
	closing *loss
	// traffic is what has travelled so far.
	traffic traffic
}

// try makes the call on this connection: see exchange.
func (c *connection) try(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	if r.frameType == wire.Ping {
		return c.ping(ctx, r)
	}
	return c.exchange(ctx, r)
}

// exchange sends the call and waits until it ends. usable is false if this connection
// was left before anything was sent; the caller may then try another connection.
func (c *connection) exchange(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	if failure := c.checkDescriptors(len(r.files.Going())); failure != nil {
		return failure, true
	}
	if r.usage != nil {
		if failure, usable := c.bind(ctx, r); failure != nil || !usable {
			return failure, usable
		}
	}
	if r.options.retryUnknown && r.frameType == wire.Request {
		if failure, usable := c.checkIdempotent(ctx, r); failure != nil || !usable {
			return failure, usable
		}
	}
	if failure := c.prepare(r); failure != nil {
		return failure, true
	}
	if uint64(r.header.ExtensionBytes)+uint64(r.payloadBytes()) > uint64(r.header.Length) {
		return c.exchangeStored(ctx, r)
	}
	return c.perform(ctx, r)
}

// perform sends a request that prepare has made, and waits for the answer.
func (c *connection) perform(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	if r.header.Descriptors > 0 {
		defer func() { c.output.detach(r.id) }()
	}
	if failure, usable := c.submit(ctx, r); failure != nil || !usable {
		return failure, usable
	}
	failure = c.wait(ctx, r)
	if failure == nil && r.stored != nil && r.frameType != wire.Store {
		failure = c.readStored(ctx, r)
	}
	if failure != nil {
		// A reply that came too late is not read.
		c.giveBack(r.stored)
		r.stored = nil
		if r.idle && r.unsent && repeatable(failure) {
			return nil, false
		}
		return failure, true
	}
	if r.functionID != 0 && r.header.FunctionID == 0 {
		c.functions.learn(r.name, r.functionID)
	}
	return nil, true
}

// prepare makes the frame up to its payload, except for the id of the call.
func (c *connection) prepare(r *call) *status.Error {
	if failure := c.unpack(r); failure != nil {
		return failure
	}
	r.reply, r.decoded, r.decodeFailure = r.reply[:r.replyStart], false, nil
	// An earlier attempt may have been answered, and the id of an earlier connection would
	// mean another call on this one.
	r.answered, r.id = false, 0
	r.header = wire.Header{Type: r.frameType, Codec: r.codec, Descriptors: uint8(len(r.files.Going())), Deadline: c.deadlineField(r)}
	r.head = r.head[:wire.HeaderBytes] // submit fills it
	if r.frameType == wire.Request && len(r.options.extensions)+len(r.added) > 0 {
		r.head = append(append(r.head, r.options.extensions...), r.added...)
	}
	switch {
	case r.function != nil:
		r.header.FunctionID = r.function.id
		if c.welcome.Accepted&wire.FeatureDescriptions != 0 {
			r.header.Status = r.function.check
		}
	case r.frameType == wire.Request:
		r.header.FunctionID = c.functions.find(r.name)
	}
	if failure := c.putCheck(r); failure != nil {
		return failure
	}
	if r.header.FunctionID == 0 {
		if err := schema.CheckFunctionName(r.name); err != nil {
			return notExecuted(status.InvalidArgument, "%w", err)
		}
	}
	if r.header.FunctionID == 0 && r.frameType == wire.Request {
		r.head = wire.AppendExtension(r.head, wire.ExtensionFunctionName, r.name)
	}
	r.header.ExtensionBytes = uint32(len(r.head) - wire.HeaderBytes)
	if r.header.ExtensionBytes > wire.ExtensionBytesMax {
		return tooManyExtensions(r.header.ExtensionBytes)
	}
	length := uint64(r.header.ExtensionBytes) + uint64(r.payloadBytes())
	if length > uint64(c.welcome.FrameBytesMax) {
		if !c.takesStored(r) {
			return c.tooLarge(length)
		}
		length = uint64(r.header.ExtensionBytes)
	}
	r.header.Length = uint32(length)
	return nil
}

func tooManyExtensions(bytes uint32) *status.Error {
	return notExecuted(status.ResourceExhausted,
		"the metadata take %d bytes with the function's name (at most %d, limit extension_bytes_max, which is fixed)", bytes, wire.ExtensionBytesMax)
}

// tooLarge returns the error for a request that the server does not take.
func (c *connection) tooLarge(length uint64) *status.Error {
	accepts, limit, option, most := uint64(c.welcome.FrameBytesMax), "frame_bytes_max", "WithFrameBytesMax", wire.FrameBytesMaxCeiling
	if c.stores.valueBytesMax > accepts {
		accepts, limit, option, most = c.stores.valueBytesMax, "value_bytes_max", "WithValueBytesMax", wire.ValueBytesMaxCeiling
	}
	return notExecuted(status.ResourceExhausted,
		"the arguments take %d bytes, and the server accepts %d (limit %s); split them, or raise the limit by the server's option %s, to at most %d", length, accepts, limit, option, most)
}

// submit enters the call into the table and sends its frame, or begins to.
func (c *connection) submit(ctx context.Context, r *call) (failure *status.Error, usable bool) {
	c.mu.Lock()
	if !c.hasPlace() {
		if r.spills {
			c.mu.Unlock()
			return c.full(), true
		}
		if failure, usable := c.waitForPlace(ctx, r); failure != nil || !usable {
			c.mu.Unlock()
			return failure, usable
		}
	}
	if c.leaving {
		c.mu.Unlock()
		return nil, false
	}
	if c.looks != nil && !c.nothingCame() {
		c.mu.Unlock()
		return c.submitAfterRead(ctx, r)
	}
	c.calls.add(r)
	r.header.CallID = r.id
	r.header.Put(r.head)
	c.armExpiry(r.deadlineNs)
	if c.silence.limit > 0 {
		c.watchSilence()
	}
	r.unsent = false
	r.leads, r.idle = c.claim(r)
	c.traffic.countRequest(&r.header)
	c.noteTaken(r)
	writer, gather := c.sendLocked(r)
	shared := c.calls.waiting > 1
	c.offerPlaces()
	c.mu.Unlock()
	switch {
	case gather:
		c.writeGathered(ctx, r)
	case writer && shared:
		letOthersAppend()
		c.flush()
	case writer:
		c.flush()
	}
	if r.observed != nil {
		r.observeStart(ctx, c)
	}
	return nil, true
}

// sendLocked puts the request into the ring, or into what the socket is to be sent.
// writer means that the caller has become the writer and must flush. gather means that
// the caller must write the request itself, with writeGathered. Preconditions: c.mu is
// held.
func (c *connection) sendLocked(r *call) (writer, gather bool) {
	plain := r.header.Descriptors == 0
	if r.inMemory = false; plain && r.frameType != wire.Store {
		r.inMemory, writer = c.putRequestLocked(r)
	}
	if r.inMemory {
		return writer, false
	}
	writer = !c.output.writing
	c.output.writing = true
	if !plain {
		c.output.attach(r.id, r.files.Going())
	}
	if plain && writer && r.payloadBytes() >= gatherBytesMin {
		c.unclaim(r)
		c.output.gathering.Lock()
		return true, true
	}
	for _, part := range r.frameParts(r.head) {
		c.output.pending = append(c.output.pending, part...)
	}
	return writer, false
}

// cancelLocked sends CANCEL by the way that the request took. Its result is that of
// appendLocked. Preconditions: c.mu is held.
func (c *connection) cancelLocked(r *call) (writer bool) {
	frame := wire.Frame{Header: wire.Header{Type: wire.Cancel, CallID: r.id}}
	if r.inMemory && !c.leaving {
		if put, writer := c.putLocked(&frame.Header, nil, nil); put {
			return writer
		}
	}
	return c.appendLocked(&frame)
}

// appendLocked appends a frame that is not a request, unless the connection was left.
// It reports whether the caller has become the writer and must flush. Preconditions:
// c.mu is held.
func (c *connection) appendLocked(frame *wire.Frame) (writer bool) {
	if c.leaving {
		return false
	}
	c.output.pending = frame.Append(c.output.pending)
	writer = !c.output.writing
	c.output.writing = true
	return writer
}

// leaveLocked ends sending on this connection; the next call opens another one.
//
// What was not sent yet is dropped. It may include a WAKE whose request lies in the
// ring. After DRAIN no reply is missed because of that: a server that drains stops
// reading where it would otherwise sleep, so it would not read the WAKE either.
// Requests above the id of DRAIN were not executed. A request below that id may not
// have been taken, if another request overtook it on the socket; its mark decides its
// outcome when the connection ends. Whatever the server sends, including its own WAKE,
// still arrives. After a failed write the connection has ended, or the deadline ends
// the call.
func (c *connection) leaveLocked() {
	if c.leaving {
		return
	}
	c.leaving = true
	c.endpoint.detach(c)
	c.output.stop()
	c.interruptWrite()
	c.recallStandby()
	close(c.left)
}

// close ends the connection for a reason on this side. The reader notices and finishes
// what is pending.
func (c *connection) close(why *loss) {
	c.mu.Lock()
	c.leaveLocked()
	if c.closing == nil {
		c.closing = why
	}
	c.mu.Unlock()
	_ = c.carrier.Close()
}

// closeIfUnused closes a connection that was left if no call waits for it.
func (c *connection) closeIfUnused() {
	c.mu.Lock()
	unused := c.leaving && c.calls.waiting == 0
	c.mu.Unlock()
	if unused {
		c.close(&loss{cause: errLeft})
	}
}

// closeIfIdle closes a connection that no call waits for and that no call will use.
func (c *connection) closeIfIdle() {
	c.mu.Lock()
	idle := c.calls.used == 0 && len(c.places.waiting) == 0 && len(c.pings.waiting) == 0
	if idle {
		c.leaveLocked()
	}
	c.mu.Unlock()
	if idle {
		c.close(&loss{cause: errLeft})
	}
}

// end finishes everything that is pending after the reader has met the end of the
// connection.
func (c *connection) end(cause error) {
	c.mu.Lock()
	left := c.leaving
	c.leaveLocked()
	c.mu.Unlock()
	// A write that is under way ends now, and tells how much was taken.
	_ = c.carrier.Close()
	c.output.gathering.Lock()
	defer c.output.gathering.Unlock()
	c.mu.Lock()
	why := c.whyEnded(cause)
	c.disarmExpiry()
	c.stopWatch()
	c.silence.stop()
	ending := c.survey(why)
	calls := c.calls.takeAbove(0)
	c.mu.Unlock()
	c.logEnd(why, len(calls))
	c.noteLoss(why, len(calls), left)
	if c.client.config.observer != nil {
		c.observeEnd(ending, len(calls))
	}
	for _, r := range calls {
		r.unsent, r.failure = ending.unsent(r), ending.failureOf(r)
	}
	c.noteLost(calls)
	for _, r := range calls {
		r.finish(r.failure)
	}
	c.client.forget(c)
}

// takenID returns the highest id among the requests that the kernel has taken
// completely.
func (c *connection) takenID() uint64 {
	c.output.sendMu.Lock()
	defer c.output.sendMu.Unlock()
	taken, _ := c.output.progress()
	return taken
}
