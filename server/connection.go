package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// unknownProtocol is said in text: whoever speaks another protocol is likely to
// be a person with nc or curl, or a program in its first hour.
const unknownProtocol = "nearcall: the first byte 0x%02x begins no protocol of this socket; send a hello, or four bytes of big-endian length and JSON\n"

// A connection is one caller's. Its goroutine, the reader, reads frames and
// runs quick functions itself; others run in goroutines of their own. When a
// function that the reader runs turns out to be slow, another goroutine takes
// the reading over: see role.go.
type connection struct {
	server  *Server
	service *service
	conn    net.Conn
	peer    Peer
	user    *user
	out     output
	parking transport.ParkingConn // conn, nil where a goroutine waits for it
	onReady func()                // resume, where there is parking

	// Set by the handshake, immutable afterwards.
	sharedClock   bool
	frameBytesMax int // largest frame the caller accepts

	// Used by the reader alone.
	in       *input
	received received
	parser   wire.Parser
	frame    wire.Frame
	nowNs    uint64 // when the request in frame was taken on
	role     role
	inline   *execution
	contexts contextSupply
	doneNs   uint64 // when the last function that the reader ran returned

	// memory is nil until a busy connection is given some; memoryDue says that
	// it is to be given now. requests counts until then.
	memory    *memory
	memoryDue bool
	requests  int
	marks     *sharedmemory.Marks // of memory, for calls that begin from now on

	// gate is set before the connection is closed: no function starts afterwards,
	// so that whoever sees the end of the connection can believe the marks.
	gate atomic.Bool

	// nextSimple numbers the calls of the simple protocol.
	nextSimple uint64

	// accepted is the highest call id taken on; with draining it decides which
	// calls a drain still covers.
	accepted atomic.Uint64
	draining atomic.Bool

	// running counts calls that run outside the reader, and readers.
	running sync.WaitGroup

	// mu protects what follows.
	mu       sync.Mutex
	calls    map[uint64]*execution
	last     uint64 // of the drain frame
	framed   bool   // the welcome is pending or out: frames may follow
	finished bool   // the last reader has ended
	closed   bool
}

func newConnection(v *service, conn net.Conn, peer Peer, u *user) *connection {
	c := &connection{
		server: v.server, service: v, conn: conn, peer: peer, user: u,
		in: newInput(v.server.buffers, &u.input), calls: make(map[uint64]*execution),
	}
	if c.parking, _ = conn.(transport.ParkingConn); c.parking != nil {
		c.onReady = c.resume
	}
	c.inline = c.newInline()
	c.out.init(conn, &v.server.config, v.server.clock, &c.gate, &u.output, v.server.buffers)
	c.role.init(c.watch)
	return c
}

// serve runs the connection, to its end unless the reading is taken over.
func (c *connection) serve() {
	first, err := c.firstByte()
	if err == nil && first == wire.FirstByteHello {
		if err = c.handshake(); err == nil {
			c.running.Add(1)
			c.read()
			return
		}
	}
	defer c.end()
	switch {
	case err != nil:
		c.close(err)
	case first == wire.FirstByteSimple:
		c.serveSimple()
		c.close(nil)
	default:
		c.server.counters.violations.Add(1)
		c.server.config.logger.Warn("unknown protocol; connection closed", "peer", c.peer.String(), "first_byte", first)
		c.out.raw(fmt.Appendf(nil, unknownProtocol, first))
		c.out.flush()
	}
}

// end waits for functions that still run and gives everything back, at once
// what others in the process wait for. Called by who has the role for good.
func (c *connection) end() {
	if c.memory != nil {
		c.memory.waiter.Close()
	}
	c.running.Wait()
	c.out.finish()
	c.close(nil)
	c.in.release(c.server.readBuffers)
	c.inline.dropScratch()
	c.returnMemory()
	c.received.arrivals.Close()
	c.server.users.leave(c.user)
	c.service.remove(c)
	c.service.active.Done()
}

// read is the reader: it processes what is there, sends what that produced,
// and waits for more. It returns when another goroutine has become the reader, or
// none is because the connection is parked; the one that still is when the
// connection ends gives everything back.
func (c *connection) read() {
	switch c.readFrames() {
	case readerParked:
		// The reader that follows takes the place of this one among the running.
	case readerEnded:
		c.running.Done()
		c.end()
	case readerReplaced:
		c.running.Done()
	}
}

// What has become of a reader.
type readerEnd int

const (
	readerReplaced readerEnd = iota
	readerParked
	readerEnded
)

// readFrames reads as long as this goroutine is the reader.
func (c *connection) readFrames() readerEnd {
	for {
		goOn, err := c.processBuffered()
		if goOn && err == nil {
			goOn, err = c.processMemory()
		}
		if !goOn {
			return readerReplaced
		}
		parked := false
		if err == nil {
			parked, err = c.await()
		}
		if parked {
			return readerParked
		}
		if err != nil {
			c.readerEnds(err)
			return readerEnded
		}
	}
}

// await sends what has been produced and waits until there is more to process, or
// parks the connection.
func (c *connection) await() (parked bool, err error) {
	c.out.flush()
	if c.memoryDue {
		c.giveMemory()
	}
	if sleep, err := c.awaitMemory(); !sleep || err != nil {
		return false, err
	}
	need := c.parser.Need(c.in.unread())
	if c.parking != nil {
		return c.receiveOrPark(need)
	}
	return false, c.receive(need)
}

// processBuffered handles every complete frame that has been read. goOn is
// false when this goroutine is no longer the reader.
func (c *connection) processBuffered() (goOn bool, err error) {
	if c.in.dropping.left > 0 {
		if err := c.drop(); err != nil {
			return true, err
		}
	}
	for {
		n, err := c.parser.Next(c.in.unread(), &c.frame)
		if err != nil {
			return true, err
		}
		if n == 0 {
			return true, nil
		}
		c.in.advance(n)
		goOn, err = c.handleFrame(n)
		if err != nil || !goOn {
			return goOn, err
		}
	}
}

// receive waits for more bytes of a message that takes need bytes in all. Only
// one that has begun has a deadline.
func (c *connection) receive(need int) error {
	if err := c.makeRoom(need); err != nil {
		return err
	}
	if ready, err := c.fallAsleep(); !ready {
		return err
	}
	former := len(c.in.unread())
	return c.wakeUp(former, c.in.fill(c.conn))
}

// fallAsleep prepares to wait for the socket; it reports whether that may be.
func (c *connection) fallAsleep() (bool, error) {
	if err := c.boundWait(); err != nil {
		return false, err
	}
	// A drain that came before the deadline above was set must not be missed.
	if c.draining.Load() {
		return false, os.ErrDeadlineExceeded
	}
	return c.memory.fallAsleep(), nil
}

// wakeUp follows a read that was waited for. err is what the read returned.
func (c *connection) wakeUp(former int, err error) error {
	c.memory.awake()
	if err == nil {
		err = c.noteArrivals(former)
	}
	c.nowNs = c.server.clock.Ns()
	return err
}

func (c *connection) boundWait() error {
	return c.in.boundWait(c.conn, c.server.config.frameTimeout, c.server.config.frameSilence)
}

// readerEnds closes the connection for the reason that reading stopped. While
// draining, what runs may still answer.
func (c *connection) readerEnds(err error) {
	c.mu.Lock()
	c.finished = true
	c.mu.Unlock()
	var violation *wire.ProtocolError
	switch {
	case errors.As(err, &violation):
		c.violation(violation)
	case errors.Is(err, transport.ErrDescriptors):
		if open := transport.DescriptorsWaiting(); open > 0 {
			c.server.config.logger.Warn("descriptors that peers sent stay open, because closing them waits for other processes", "count", open)
		}
		text := "descriptors arrived, which were not agreed to"
		if c.received.agreed {
			text = "more descriptors arrived while very many wait to be closed"
		}
		c.violation(&wire.ProtocolError{Text: text})
	case c.draining.Load() && isTimeout(err):
		// end closes after the last answer.
	case isTimeout(err):
		c.tooSlow()
	default:
		c.close(err)
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// violation tells the peer what it did wrong, logs it and closes.
func (c *connection) violation(err *wire.ProtocolError) {
	c.closeWith(violationCode(err), "protocol error", err)
}

// tooSlow ends the connection of a peer that was held up within a frame: it has
// broken no rule, and may send the same again.
func (c *connection) tooSlow() {
	c.closeWith(status.Unavailable, "peer too slow", &wire.ProtocolError{Text: fmt.Sprintf("a frame stopped for frame_silence_ms, or was not complete within frame_timeout_ms; the server's options WithFrameSilence and WithFrameTimeout raise these limits to at most %d and %d ms", wire.FrameSilenceMsCeiling, wire.FrameTimeoutMsCeiling)})
}

func (c *connection) closeWith(code status.Code, what string, err *wire.ProtocolError) {
	c.server.counters.violations.Add(1)
	c.server.config.logger.Warn(what+"; connection closed", "peer", c.peer.String(), "software", c.peer.Software, "error", err.Text)
	c.sendFailure(0, &status.Error{Code: code, Outcome: status.OutcomeNotExecuted, Message: what + ": " + err.Text})
	c.out.finish()
	c.close(err)
}

func violationCode(err *wire.ProtocolError) status.Code {
	if err.TooLarge {
		return status.ResourceExhausted
	}
	return status.InvalidArgument
}

// close closes the connection and ends the contexts of its calls. It may be
// called by any goroutine, repeatedly.
func (c *connection) close(reason error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.gate.Store(true)
	if c.role.interrupt() {
		c.adopt(c.inline)
		// Nobody reads any more who would do it.
		go c.end()
	}
	calls := make([]*execution, 0, len(c.calls))
	for _, call := range c.calls {
		calls = append(calls, call)
	}
	c.mu.Unlock()

	if reason != nil && !errors.Is(reason, io.EOF) && !errors.Is(reason, net.ErrClosed) {
		c.server.config.logger.Debug("connection closed", "peer", c.peer.String(), "reason", reason)
	}
	c.role.stop()
	c.conn.Close()
	c.out.closed()
	for _, call := range calls {
		call.cancel(context.Canceled)
	}
}

// drain makes the reader stop reading and tells the caller which calls will
// still be answered. It does not wait: a caller that does not read must not
// keep the others from being told.
func (c *connection) drain() {
	c.mu.Lock()
	c.draining.Store(true)
	c.last = c.accepted.Load()
	tell := c.framed && !c.finished && !c.closed
	if tell {
		c.running.Add(1)
	}
	c.mu.Unlock()
	if tell {
		go c.sendDrain()
	}
	c.conn.SetReadDeadline(time.Unix(1, 0))
}

func (c *connection) sendDrain() {
	defer c.running.Done()
	c.appendDrain()
	c.out.flush()
}

func (c *connection) appendDrain() {
	header := wire.Header{Type: wire.Drain, CallID: c.last}
	c.out.append(&header, nil, nil)
}

// covered reports whether a call that was taken on while draining has an id
// that the drain frame promised to answer.
func (c *connection) covered(id uint64) bool {
	if !c.draining.Load() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return id <= c.last
}
