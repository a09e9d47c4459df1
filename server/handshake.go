package server

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// turnAwayWait is how long a peer that is turned away is given to show which protocol
// it speaks, so that it can be told in that protocol.
const turnAwayWait = 100 * time.Millisecond

// turnedAwayMax is how many peers are turned away at a time, with that wait. Each has a
// descriptor, though it does not count as a connection, and many would leave none to others.
const turnedAwayMax = 16

// refusalBytesMax bounds the words with which a connection is refused, which may contain names from
// a certificate. With them, the welcome stays within hello_bytes_max.
const refusalBytesMax = 2 << 10

// implemented are the features that this server accepts.
const implemented = wire.FeatureSharedClock | wire.FeatureSharedMemory | wire.FeatureDescriptors | wire.FeatureDescriptions |
	wire.FeaturePackedLists | wire.FeatureStores | wire.FeatureAsks | wire.FeatureDirections

// firstByte waits for the first byte of the connection.
func (r *reader) firstByte() (byte, error) {
	c := r.connection
	if err := r.fillAtOnce(); err != nil {
		return 0, err
	}
	if len(r.input.unread()) == 0 {
		if err := r.boundFirst(); err != nil {
			return 0, err
		}
		if err := r.input.fill(c.carrier); err != nil {
			return 0, err
		}
	}
	return r.input.unread()[0], nil
}

// fillAtOnce reads what has arrived already, if the carrier can do so without waiting.
// Most peers send before they are accepted, and a short connection then needs no deadline.
func (r *reader) fillAtOnce() error {
	c := r.connection
	now, ok := c.carrier.(nowReader)
	if !ok {
		return nil
	}
	if c.calls.draining.Load() {
		return os.ErrDeadlineExceeded
	}
	return r.input.fillNow(now)
}

// boundFirst sets the deadline of the whole hello, or of the first simple request, unless
// it is set.
func (r *reader) boundFirst() error {
	if r.input.bounded {
		return nil
	}
	return r.bound(r.connection.server.config.helloTimeout)
}

func (r *reader) bound(timeout time.Duration) error {
	c := r.connection
	r.input.bounded, r.input.limit = true, time.Now().Add(timeout)
	if err := c.carrier.SetReadDeadline(r.input.limit); err != nil {
		return err
	}
	// A drain that began before the deadline was set must not be missed.
	if c.calls.draining.Load() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// handshake reads the hello and answers it.
func (r *reader) handshake() error {
	c := r.connection
	var hello wire.Hello
	for {
		n, err := wire.ParseHello(r.input.unread(), &hello)
		var violation *wire.ProtocolError
		if errors.As(err, &violation) {
			c.server.counters.violations.Add(1)
			return c.refuse(refusedf(violationCode(violation), "%s", violation.Text))
		}
		if n > 0 {
			r.input.advance(n)
			break
		}
		if !r.input.makeRoom(wire.HelloBytesMax) {
			return c.refuse(c.user.input.refusal(wire.HelloBytesMax))
		}
		if err := r.boundFirst(); err != nil {
			return err
		}
		if err := r.input.fill(c.carrier); err != nil {
			return err
		}
	}
	if refusal := checkHello(&hello); refusal != nil {
		return c.refuse(refusal)
	}
	accepted := c.accept(&hello)
	if missing := hello.Required &^ accepted; missing != 0 {
		return c.refuse(refusedf(status.Unimplemented, "the caller requires %s, which this server does not have or the caller did not offer", featureNames(missing)))
	}
	r.agree(&hello, accepted)
	return nil
}

// accept returns those of the offered features that the server agrees to.
func (c *connection) accept(hello *wire.Hello) wire.Feature {
	accepted := hello.Offered & implemented
	now := c.server.clock.Ns()
	if !c.peer.Local || hello.ClockNs > now || now-hello.ClockNs > wire.HelloClockMsMax*uint64(time.Millisecond) {
		accepted &^= wire.FeatureSharedClock
	}
	if !c.memoryAllowed() {
		accepted &^= wire.FeatureSharedMemory
	}
	if !c.memoryAllowed() || c.server.config.valueBytesMax <= c.server.config.frameBytesMax {
		accepted &^= wire.FeatureStores
	}
	if accepted&wire.FeatureDescriptors != 0 && !c.descriptorsAllowed() {
		accepted &^= wire.FeatureDescriptors
	}
	if c.server.config.endedConnectionsMax == 0 {
		accepted &^= wire.FeatureAsks
	}
	return accepted
}

func checkHello(hello *wire.Hello) *status.Error {
	if hello.VersionMin > wire.Version || hello.VersionMax < wire.Version {
		return refusedf(status.Unimplemented, "the caller speaks protocol versions %d to %d, this server %d", hello.VersionMin, hello.VersionMax, wire.Version)
	}
	if t, found := wire.UnknownMandatory(hello.Extensions); found {
		return refusedf(status.Unimplemented, "the hello has extension 0x%04x, which this server does not understand", uint16(t))
	}
	return nil
}

func featureNames(set wire.Feature) string {
	names := map[wire.Feature]string{
		wire.FeatureSharedClock: "shared clock", wire.FeatureStreams: "streams",
		wire.FeatureDescriptors: "file descriptors", wire.FeatureSharedMemory: "shared memory",
		wire.FeatureDescriptions: "descriptions", wire.FeatureReversed: "reversed roles",
		wire.FeaturePackedLists: "packed lists", wire.FeatureStores: "stores",
		wire.FeatureAsks: "asks", wire.FeatureDirections: "directions",
	}
	text := ""
	for bit := wire.Feature(1); bit != 0; bit <<= 1 {
		if set&bit == 0 {
			continue
		}
		name, known := names[bit]
		if !known {
			name = fmt.Sprintf("feature bits 0x%x", uint64(bit))
		}
		if text != "" {
			text += ", "
		}
		text += name
	}
	return text
}

// agree sets what the connection uses, and sends the welcome.
func (r *reader) agree(hello *wire.Hello, accepted wire.Feature) {
	c := r.connection
	c.agreed.sharedClock = accepted&wire.FeatureSharedClock != 0
	c.agreed.directions = accepted&wire.FeatureDirections != 0
	c.agreed.frameBytesMax = int(min(hello.FrameBytesMax, math.MaxInt32))
	c.peer.Software = hello.Software
	if accepted&wire.FeatureDescriptors != 0 {
		r.agreeDescriptors()
	}
	if accepted&wire.FeatureStores != 0 {
		c.agreeStores(int(hello.ValueBytesMax))
	}
	r.parser = wire.Parser{From: wire.CallerSide, FrameBytesMax: uint32(c.server.config.frameBytesMax), Features: accepted}
	welcome := c.welcome()
	welcome.Version, welcome.Accepted, welcome.ClockNs = wire.Version, accepted, c.server.clock.Ns()
	if c.stores != nil {
		welcome.ValueBytesMax = uint64(c.server.config.valueBytesMax)
	}
	if accepted&wire.FeatureAsks != 0 {
		welcome.Key = c.keepHistory().key
	}
	welcome.Load, welcome.HasLoad = c.server.load(), true
	welcome.CallsInFlightMax = uint32(c.server.config.callsInFlightMax)
	welcome.SchemaHash = c.service.table.document.WelcomeHash()
	c.output.raw(welcome.Append(nil))
	if c.calls.beginFrames() {
		c.appendDrain()
	}
	c.output.flush()
	if c.server.config.observer != nil {
		c.observeOpening()
	}
}

func (c *connection) welcome() wire.Welcome {
	return wire.Welcome{
		Instance: c.server.instance, ProcessID: uint32(os.Getpid()),
		FrameBytesMax: uint32(c.server.config.frameBytesMax), StreamCreditBytes: wire.StreamCreditBytes,
		Software: c.server.config.software,
	}
}

// refuse answers the hello with a welcome that refuses the connection.
func (c *connection) refuse(reason *status.Error) error {
	text := reason.Message
	if len(text) > refusalBytesMax {
		text = strings.ToValidUTF8(text[:refusalBytesMax], "")
	}
	c.server.config.logger.Warn("hello refused", "peer", c.peer.String(), "reason", text)
	welcome := c.welcome()
	welcome.Status, welcome.Refusal = uint16(reason.Code), text
	c.output.raw(welcome.Append(nil))
	c.output.flush()
	return reason
}

// turnAway turns a peer away: at once, before another is accepted, if that goes on with many.
func (v *service) turnAway(c *connection, reason *status.Error) {
	turnedAway := &v.server.turnedAway
	if turnedAway.Add(1) > turnedAwayMax {
		turnedAway.Add(-1)
		c.reader.turnAwayAtOnce(reason)
		return
	}
	go func() {
		defer turnedAway.Add(-1)
		v.tellRefusal(c, reason)
	}()
}

// tellRefusal waits, for a short time, for the peer to show its protocol, and tells it the
// reason.
func (v *service) tellRefusal(c *connection, reason *status.Error) {
	c.reader.turnAway(reason, func() error {
		if err := c.reader.bound(min(turnAwayWait, v.server.config.helloTimeout)); err != nil {
			return err
		}
		return c.reader.input.fill(c.carrier)
	})
}

// turnAwayAtOnce does not wait, and therefore says nothing over carriers that may make it wait,
// as TLS does.
func (r *reader) turnAwayAtOnce(reason *status.Error) {
	if _, ok := r.connection.carrier.(nowReader); !ok {
		r.connection.end()
		return
	}
	r.turnAway(reason, r.fillAtOnce)
}

// turnAway tells a peer that may not connect the reason, in the peer's own protocol, which fill
// lets it see.
func (r *reader) turnAway(reason *status.Error, fill func() error) {
	c := r.connection
	defer c.end()
	reason.Outcome = status.OutcomeNotExecuted
	first := byte(wire.FirstByteHello)
	if fill() == nil && len(r.input.unread()) > 0 {
		first = r.input.unread()[0]
	}
	if first == wire.FirstByteSimple {
		c.answerSimple(nil, reason)
		c.output.flush()
		return
	}
	_ = c.refuse(reason)
}
