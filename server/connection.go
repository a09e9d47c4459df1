package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// unknownProtocol is sent as text, because a peer that speaks another protocol is
// likely to be a person with nc or curl, or a program that is just being written.
const unknownProtocol = "nearcall: the first byte 0x%02x begins no protocol of this socket; send a hello, or four bytes of big-endian length and JSON\n"

// A connection serves one caller. It consists of parts, each of which belongs to
// somebody; what it holds itself does not change once the hello was answered.
//
// One of its goroutines at a time reads frames and runs quick functions itself: it has
// the role (role.go), and the reader belongs to it (reader.go). Other functions run in
// goroutines of their own. If a function that the reader runs turns out to be slow,
// another goroutine gets the role, with a reader of its own that goes on where the
// former one was.
type connection struct {
	server  *Server
	service *service
	carrier transport.Carrier
	peer    Peer
	origin  contextOrigin
	names   []string // in the peer's certificate, nil if there is none
	user    *user
	agreed  agreed
	parking transport.ParkingConn // carrier, or nil if a goroutine waits for input
	onReady func()                // resume, if carrier can be parked

	// The goroutine that has the role uses reader; one that takes the role from it
	// replaces it.
	role   role
	reader *reader

	// These guard themselves.
	output output
	calls  callTable
	// stores is nil unless the caller and this server have agreed on them.
	stores *stores

	// observed is what the observer is told of the connection.
	observed observedConnection

	// gate is set before the connection is closed. No function starts after that, so
	// that a caller that has seen the end of the connection can rely on the marks.
	gate atomic.Bool
}

// agreed is what hello and welcome have settled.
type agreed struct {
	sharedClock   bool
	descriptors   bool
	directions    bool
	frameBytesMax int // size of the largest frame that the caller accepts
	valueBytesMax int // size of the largest payload that it accepts in a store, 0 for none
}

// newConnection makes the serving end of a connection. It does not matter which side has
// dialled.
func newConnection(v *service, carrier transport.Carrier, peer Peer, u *user) *connection {
	c := &connection{server: v.server, service: v, carrier: carrier, peer: peer, user: u}
	c.origin = contextOrigin{clock: &v.server.clock, peer: &c.peer, values: v.values}
	if c.parking, _ = carrier.(transport.ParkingConn); c.parking != nil {
		c.onReady = c.resume
	}
	c.reader = newReader(c)
	c.output.init(carrier, &v.server.config, v.server.clock, &c.gate, &u.output, v.server.buffers)
	c.calls.init(&v.server.config, u)
	c.role.init(c.watch, &v.server.watches)
	return c
}

// serve serves the connection until it ends or another goroutine becomes its reader.
func (c *connection) serve() {
	c.keepPace(c.user.descriptors.freeAt())
	r := c.reader
	if err := c.secure(); err != nil {
		c.insecure(err)
		return
	}
	first, err := r.firstByte()
	if err == nil && first == wire.FirstByteHello {
		if err = r.handshake(); err == nil {
			c.calls.running.Add(1)
			r.read()
			return
		}
	}
	if err == nil && first == wire.FirstByteSimple {
		r.serveSimple()
		return
	}
	defer c.end()
	switch {
	case err != nil:
		if c.server.config.observer != nil {
			c.observeRefusal(err)
		}
		c.close(err)
	default:
		c.server.counters.violations.Add(1)
		c.server.config.logger.Warn("unknown protocol; connection closed", "peer", c.peer.String(), "first_byte", first)
		if c.server.config.observer != nil {
			c.observeRefusal(refusedf(status.InvalidArgument, unknownProtocol, first))
		}
		c.output.raw(fmt.Appendf(nil, unknownProtocol, first))
		c.output.flush()
	}
}

// end waits for functions that still run, and then gives everything back. What others
// in the process may be waiting for is given back first. Nobody has the role any more,
// or the caller has it and nobody will have it again.
func (c *connection) end() {
	c.reader.memory.stopWaiting()
	c.calls.running.Wait()
	c.output.finish()
	c.awaitCaller()
	c.close(nil)
	if c.server.config.observer != nil {
		c.observeEnd(c.calls.whyClosed())
	}
	c.reader.release()
	if c.calls.history != nil {
		c.server.histories.end(c.calls.history)
	}
	if lingering, ok := c.carrier.(transport.LingeringCarrier); ok {
		<-lingering.Gone() // it still counts while it sends
	}
	c.server.users.leave(c.user)
	c.service.remove(c)
	c.service.active.Done()
}

// endOfReading closes the connection because reading has stopped. While the server
// drains, running functions may still answer.
func (c *connection) endOfReading(err error) {
	c.calls.finish()
	c.stores.endOfReading()
	var violation *wire.ProtocolError
	switch {
	case errors.As(err, &violation):
		c.violation(violation)
	case errors.Is(err, transport.ErrDescriptors):
		c.surplusDescriptors()
	case c.calls.draining.Load() && isTimeout(err):
		// end closes the connection after the last answer.
	case isTimeout(err):
		c.tooSlow()
	default:
		c.close(err)
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// surplusDescriptors ends the connection of a peer that sent descriptors which cannot be
// taken.
func (c *connection) surplusDescriptors() {
	c.user.descriptors.count(transport.DescriptorsPerMessageMax, time.Now())
	if open := transport.DescriptorsWaiting(); open > 0 {
		c.server.config.logger.Warn("descriptors that peers sent stay open, because closing them waits for other processes", "count", open)
	}
	text := "descriptors arrived, which were not agreed to"
	if c.agreed.descriptors {
		text = "more descriptors arrived while very many wait to be closed"
	}
	c.violation(&wire.ProtocolError{Text: text})
}

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
	c.output.finish()
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
	calls, first := c.beginClose(reason)
	if !first {
		return
	}
	if reason != nil && !errors.Is(reason, io.EOF) && !errors.Is(reason, net.ErrClosed) {
		c.server.config.logger.Debug("connection closed", "peer", c.peer.String(), "reason", reason)
	}
	c.role.stop()
	c.carrier.Close()
	c.output.closed()
	for _, call := range calls {
		call.cancel(cmp.Or(reason, context.Canceled))
	}
}

// beginClose makes sure that no call begins any more, keeps the reason, and returns the
// calls in flight. It reports whether this was the first to close the connection.
func (c *connection) beginClose(reason error) (inFlight []*execution, first bool) {
	t := &c.calls
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	t.closed, t.reason = true, reason
	t.tellIdleLocked()
	c.gate.Store(true)
	if c.role.interrupt() {
		t.adoptLocked(&c.reader.inline)
		// There is no reader any more that would do it.
		go c.end()
	}
	if t.history != nil {
		t.history.close(maps.Keys(t.inFlight))
	}
	return slices.Collect(maps.Values(t.inFlight)), true
}

// drain makes the reader stop reading, and tells the caller which calls will still be
// answered. It does not wait: a caller that does not read must not keep others from
// being told.
func (c *connection) drain() {
	if c.calls.drain() {
		go c.sendDrain()
	}
	c.carrier.SetReadDeadline(time.Unix(1, 0))
}

func (c *connection) sendDrain() {
	defer c.calls.told()
	c.appendDrain()
	c.output.flush()
}

func (c *connection) appendDrain() {
	header := wire.Header{Type: wire.Drain, CallID: c.calls.lastCovered()}
	c.output.append(&header, nil, nil)
}
