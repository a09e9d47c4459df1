package server

import (
	"cmp"
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

// unknownProtocol is sent as text, because a peer that speaks another protocol is
// likely to be a person with nc or curl, or a program that is just being written.
const unknownProtocol = "nearcall: the first byte 0x%02x begins no protocol of this socket; send a hello, or four bytes of big-endian length and JSON\n"

// A connection serves one caller. One of its goroutines at a time is the reader, which
// reads frames and runs quick functions itself. Other functions run in goroutines of
// their own. If a function that the reader runs turns out to be slow, another goroutine
// becomes the reader: see role.go.
type connection struct {
	server  *Server
	service *service
	conn    net.Conn
	peer    Peer
	user    *user
	out     output
	parking transport.ParkingConn // conn, or nil if a goroutine waits for input
	onReady func()                // resume, if conn can be parked

	// Set by the handshake, and not changed afterwards.
	sharedClock   bool
	frameBytesMax int // size of the largest frame that the caller accepts

	// Used only by the reader.
	in       *input
	received received
	parser   wire.Parser
	frame    wire.Frame
	nowNs    uint64 // when the reader began with the request in frame
	role     role
	inline   *execution
	contexts contextSupply
	doneNs   uint64 // when the last function that the reader ran returned

	// memory is nil until a busy connection is given some. requests counts up to that,
	// and memoryDue says that it must be given now.
	memory    *memory
	memoryDue bool
	requests  int
	marks     *sharedmemory.Marks // the marks of memory, for calls that begin from now on

	// gate is set before the connection is closed. No function starts after that, so
	// that a caller that has seen the end of the connection can rely on the marks.
	gate atomic.Bool

	// nextSimple numbers the calls of the simple protocol.
	nextSimple uint64

	// accepted is the highest call id that the server has accepted. While draining, it
	// decides which calls are still answered.
	accepted atomic.Uint64
	draining atomic.Bool

	// running counts the calls that run outside the reader, and the readers.
	running sync.WaitGroup

	// mu protects what follows.
	mu       sync.Mutex
	calls    map[uint64]*execution
	last     uint64 // the id in the drain frame
	framed   bool   // the welcome is sent or will be, so frames may follow
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

// serve serves the connection until it ends or another goroutine becomes its reader.
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

// end waits for functions that still run, and then gives everything back. What others
// in the process may be waiting for is given back first. The caller is the last reader:
// nobody will read from the connection after it.
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

// read makes its goroutine the reader: it processes what has arrived, sends the
// answers, and waits for more. It returns when another goroutine has become the reader,
// or when the connection is parked and has none. The reader that sees the connection
// end gives everything back.
func (c *connection) read() {
	switch c.readFrames() {
	case readerParked:
		// The next reader takes this one's place in running.
	case readerEnded:
		c.running.Done()
		c.end()
	case readerReplaced:
		c.running.Done()
	}
}

// readerEnd says why a goroutine is no longer the reader.
type readerEnd int

const (
	readerReplaced readerEnd = iota
	readerParked
	readerEnded
)

// readFrames reads for as long as this goroutine is the reader.
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

// await sends the answers and waits until there is more to process, or parks the
// connection.
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

// processBuffered handles all complete frames that have been read. goOn is false if
// this goroutine is no longer the reader.
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

// receive waits for more bytes of a message that has need bytes in all. There is a
// deadline only if the message has begun.
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

// fallAsleep prepares to wait for the socket, and reports whether the reader may do so.
func (c *connection) fallAsleep() (bool, error) {
	if err := c.boundWait(); err != nil {
		return false, err
	}
	// A drain that began before the deadline above was set must not be missed.
	if c.draining.Load() {
		return false, os.ErrDeadlineExceeded
	}
	return c.memory.fallAsleep(), nil
}

// wakeUp is called after a read that had to wait. err is what the read returned.
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

// readerEnds closes the connection because reading has stopped. While the server
// drains, running functions may still answer.
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
		// end closes the connection after the last answer.
	case isTimeout(err):
		c.tooSlow()
	default:
		c.close(err)
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// violation tells the peer how it has broken the protocol, logs that, and closes.
func (c *connection) violation(err *wire.ProtocolError) {
	c.closeWith(violationCode(err), "protocol error", err)
}

// tooSlow ends the connection of a peer that stopped in the middle of a frame. It has
// not broken the protocol and may send the same again.
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

// close closes the connection and ends the contexts of its calls. It may be called from
// any goroutine, any number of times.
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
		// There is no reader any more that would do it.
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
		call.cancel(cmp.Or(reason, context.Canceled))
	}
}

// drain makes the reader stop reading, and tells the caller which calls will still be
// answered. It does not wait: a caller that does not read must not keep others from
// being told.
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

// covered reports whether the call with this id will be answered. While draining, the
// drain frame has told the caller the highest such id.
func (c *connection) covered(id uint64) bool {
	if !c.draining.Load() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return id <= c.last
}
