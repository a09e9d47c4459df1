package bus

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// A Lost is why a stream has ended, unless one of its ends has closed it.
type Lost struct{ Text string }

// Error implements error.
func (l *Lost) Error() string { return "the message bus: " + l.Text }

func lostf(format string, args ...any) *Lost { return &Lost{fmt.Sprintf(format, args...)} }

// errNobody is why a stream ends whose peer is not there.
var errNobody = &Lost{"nobody is there any more to receive it"}

// A stream is one end of a connection over messages: two ordered streams of bytes. It knows
// nothing of the engine. It ends when a message was lost, came twice, came out of order or came
// too late, so that what is read is always a beginning of what was written.
//
// Locks are taken in the order of the fields: sendMu, then mu. Nothing is published with mu held.
type stream struct {
	hub     *Hub
	own     origin
	peer    origin // its stream is "" until it has answered
	dialled bool
	to      string // the subject of the peer
	replies string // where the engine answers about messages, up to the offset

	// sendMu keeps the messages that say how much was sent in their order.
	sendMu sync.Mutex

	// mu protects what follows; changed is broadcast when it changes.
	mu      sync.Mutex
	changed sync.Cond

	opened     bool
	sent, room uint64 // bytes that were published, and that may be
	finished   bool   // this side's stream has ended

	in       inbox
	received uint64 // bytes that have arrived
	told     uint64 // up to where the peer may send
	window   uint64
	pace     pace
	peerEnd  uint64 // where the peer's stream ends, noEnd until that is known
	delays   delays

	closed      bool  // by this side
	failure     error // why it has ended otherwise
	undelivered uint64
	knows       bool // that nothing was delivered from undelivered on

	reading, writing bound
	times            times
	answerMs         uint64 // when a PROBE is answered again
}

// A bound is the deadline of one direction.
type bound struct {
	deadline time.Time
	timer    *time.Timer
}

func (b *bound) passed() bool { return !b.deadline.IsZero() && !time.Now().Before(b.deadline) }

func (b *bound) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

func newStream(hub *Hub, peer origin, window uint64) *stream {
	s := &stream{hub: hub, own: origin{hub.instance, newID()}, peer: peer, window: window, pace: pace{bytes: min(window, paceFirst)}, peerEnd: noEnd}
	s.told = s.pace.bytes
	s.changed.L = &s.mu
	s.to, s.replies = hub.subjects.at(peer), hub.subjects.at(s.own)+"."
	s.times.heardMs = hub.config.Now()
	return s
}

// setDeadline sets the deadline of one direction.
func (s *stream) setDeadline(of *bound, deadline time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	of.stop()
	of.deadline = deadline
	if !deadline.IsZero() {
		of.timer = time.AfterFunc(time.Until(deadline), s.wake)
	}
	s.changed.Broadcast()
	return nil
}

func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// write takes what there is room for, and publishes it. It fails if nothing will ever be taken.
// It changes parts, and returns those that are left.
func (s *stream) write(parts [][]byte) (rest [][]byte, taken int, err error) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	left := 0
	for _, part := range parts {
		left += len(part)
	}
	message := s.hub.messages.get()
	defer s.hub.messages.put(message)
	for left > 0 {
		h, n, err := s.admit(left, s.hub.medium.MessageBytes())
		if n == 0 || err != nil {
			return parts, taken, err
		}
		*message, parts = appendParts(h.append((*message)[:0]), parts, n)
		if err := s.hub.medium.Publish(s.to, s.replies+strconv.FormatUint(h.offset, 10), *message); err != nil {
			lost := lostf("%v", err)
			s.fail(lost, h.offset, true)
			return parts, taken, lost
		}
		taken, left = taken+n, left-n
	}
	return parts, taken, nil
}

// appendParts appends n bytes of the parts, and returns what is left of them.
func appendParts(b []byte, parts [][]byte, n int) ([]byte, [][]byte) {
	for n > 0 {
		moved := min(n, len(parts[0]))
		b = append(b, parts[0][:moved]...)
		n -= moved
		if parts[0] = parts[0][moved:]; len(parts[0]) == 0 {
			parts = parts[1:]
		}
	}
	return b, parts
}

// admit returns the header of the next DATA, of n bytes, which count as sent. n is 0 if there is
// no room. messageBytes is what the medium takes.
func (s *stream) admit(left, messageBytes int) (h header, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writableLocked(); err != nil {
		return h, 0, err
	}
	if messageBytes < 1 {
		return h, 0, lostf("the engine takes no messages that are large enough")
	}
	n = int(min(uint64(left), s.room-s.sent, uint64(min(s.hub.config.MessageBytes, messageBytes))))
	if n > 0 {
		s.times.ask(s.hub.config.Now())
		h = s.headerLocked(kindData)
		s.sent += uint64(n)
	}
	return h, n, nil
}

// headerLocked returns a header that says how much was sent and how much may come.
func (s *stream) headerLocked(k kind) header {
	if room := s.readLocked() + s.pace.bytes; room > s.told {
		s.told = room
	}
	return header{kind: k, sentMs: uint32(s.hub.config.Now()), offset: s.sent, room: s.told}
}

// readLocked returns how many bytes were read.
func (s *stream) readLocked() uint64 { return s.received - uint64(s.in.bytes) }

func (s *stream) writableLocked() error {
	switch {
	case s.closed || s.finished:
		return net.ErrClosed
	case s.failure != nil:
		return s.failure
	case s.writing.passed():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// awaitRoom waits until write would take something or fail.
func (s *stream) awaitRoom() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := s.writableLocked(); err != nil || s.room > s.sent {
			return err
		}
		s.changed.Wait()
	}
}

// read reads what is there, and waits for something.
func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	n, err := s.awaitLocked(b)
	var credit header
	if s.peerEnd == noEnd && s.failure == nil && !s.closed && s.readLocked()+s.pace.bytes >= s.told+s.pace.bytes/2 {
		s.pace.raise(s.window)
		credit = s.headerLocked(kindCredit)
	}
	s.mu.Unlock()
	if credit.kind != 0 {
		s.endAgain()
		s.say(credit, nil)
	}
	return n, err
}

// finish ends this side's stream, and goes on reading.
func (s *stream) finish() error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.mu.Lock()
	if err := s.writableLocked(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.mu.Unlock()
		return err
	}
	s.finished = true
	s.times.ask(s.hub.config.Now())
	h := s.headerLocked(kindEnd)
	s.changed.Broadcast()
	s.mu.Unlock()
	s.say(h, nil)
	return nil
}

// close ends both directions, and tells the peer how much was read. The rest is dropped.
func (s *stream) close() {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.mu.Lock()
	tell := !s.closed && s.failure == nil && s.peer.stream != ""
	h := header{kind: kindReset, sentMs: uint32(s.hub.config.Now()), offset: s.readLocked(), room: s.sent}
	s.closed = true
	s.in.drop()
	s.reading.stop()
	s.writing.stop()
	s.changed.Broadcast()
	s.mu.Unlock()
	// The peer is told before the hub would tell it that there is no such stream.
	if tell {
		s.say(h, nil)
	}
	s.hub.forget(s)
}

// say publishes a message that is not DATA. If the engine does not take it, the stream ends.
func (s *stream) say(h header, payload []byte) {
	message := append(h.append(make([]byte, 0, headerBytes+len(payload))), payload...)
	if err := s.hub.medium.Publish(s.to, s.replies+notAboutBytes, message); err != nil {
		s.fail(lostf("%v", err), 0, false)
	}
}

// fail ends the stream, whose peer is not told. Bytes that have arrived can still be read. If knows
// is set, nothing was delivered from undelivered on.
func (s *stream) fail(failure error, undelivered uint64, knows bool) {
	s.mu.Lock()
	s.failLocked(failure, undelivered, knows)
	s.mu.Unlock()
	s.hub.forget(s)
}

func (s *stream) failLocked(failure error, undelivered uint64, knows bool) {
	if s.failure != nil || s.closed {
		return
	}
	s.failure = failure
	s.undelivered, s.knows = undelivered, knows && undelivered <= s.sent
	s.changed.Broadcast()
}

// undeliveredFrom is transport.Undelivered.
func (s *stream) undeliveredFrom() (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.undelivered, s.knows
}

// nobody notes that the engine had nobody to deliver a message to: the DATA at an offset, if it is
// known to be about one. Later messages meet a gap, wherever they arrive.
func (s *stream) nobody(offset uint64, known bool) { s.fail(errNobody, offset, known) }

// roomLocked notes how far this side may send.
func (s *stream) roomLocked(room uint64) error {
	if room > s.sent+wire.BusWindowBytesCeiling {
		return errors.New("the peer allows more than the largest window")
	}
	if room > s.room {
		s.room = room
		s.changed.Broadcast()
	}
	return nil
}

// errGone is why nothing can be written to a stream that the peer has closed.
var errGone = syscall.EPIPE
