package bus

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/nearcall/nearcall/internal/wire"
)

// awaitLocked reads what is there, and waits for something. Bytes that have arrived are read before
// the end is told.
func (s *stream) awaitLocked(b []byte) (int, error) {
	for {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case s.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case s.in.bytes > 0 || len(b) == 0:
			return s.in.take(b), nil
		case s.peerEnd == s.received:
			return 0, io.EOF
		case s.failure != nil:
			return 0, s.failure
		}
		s.changed.Wait()
	}
}

// receive handles a message of the peer's.
func (s *stream) receive(h header, payload []byte, from origin) {
	s.mu.Lock()
	if s.closed || s.failure != nil {
		s.mu.Unlock()
		return
	}
	answer, err := s.handleLocked(h, payload, from)
	reset := header{kind: kindReset, sentMs: uint32(s.hub.config.Now()), offset: s.readLocked(), room: noEnd}
	if err != nil {
		s.in.drop() // the peer is told that nobody reads it
		s.failLocked(&Lost{err.Error()}, 0, false)
	}
	over := s.failure != nil
	s.mu.Unlock()
	switch {
	case err != nil:
		s.say(reset, []byte(cutReason(err.Error())))
	case answer:
		s.endAgain()
		s.probe(kindProbed)
	}
	if over {
		s.hub.forget(s)
	}
}

// handleLocked handles a message. answer asks for a PROBED. An error ends the stream.
func (s *stream) handleLocked(h header, payload []byte, from origin) (answer bool, err error) {
	nowMs := s.hub.config.Now()
	s.times.hear(nowMs)
	if h.kind == kindReset {
		s.resetLocked(h, payload, from)
		return false, nil
	}
	late := s.delays.note(h.sentMs, nowMs)
	if late > wire.BusDelayMsMax && !s.dialled {
		// Only a request may do harm that comes late, and the dialler sends those.
		return false, fmt.Errorf("a message was held up for %d ms", late)
	}
	if s.opened != (h.kind != kindOpened) {
		return false, errors.New("a message at the wrong time")
	}
	switch h.kind {
	case kindOpened:
		return false, s.openedLocked(h, from)
	case kindData:
		s.pace.note(late)
		err = s.dataLocked(h, payload)
	case kindEnd:
		err = s.inOrderLocked(h.offset)
		s.peerEnd = h.offset
		s.changed.Broadcast()
	case kindProbe, kindProbed:
		if h.offset != noEnd {
			err = s.inOrderLocked(h.offset)
		}
	case kindCredit:
	default:
		err = errors.New("a message of the wrong kind")
	}
	if err == nil {
		err = s.roomLocked(h.room)
	}
	return h.kind == kindProbe && s.mayAnswerLocked(nowMs), err
}

// mayAnswerLocked reports whether a PROBE is answered. Its peer asks seldom, and one that floods finds out
// by asking again.
func (s *stream) mayAnswerLocked(nowMs uint64) bool {
	if nowMs < s.answerMs {
		return false
	}
	s.answerMs = nowMs + answerEveryMs
	return true
}

func (s *stream) openedLocked(h header, from origin) error {
	if from.instance != s.peer.instance {
		return errors.New("somebody else answers")
	}
	s.opened, s.peer, s.to = true, from, s.hub.subjects.at(from)
	s.times.heardMs = s.hub.config.Now()
	s.changed.Broadcast()
	return s.roomLocked(h.room)
}

func (s *stream) dataLocked(h header, payload []byte) error {
	if err := s.inOrderLocked(h.offset); err != nil {
		return err
	}
	if uint64(len(payload)) > s.told-s.received || s.peerEnd != noEnd {
		return errors.New("the peer sends more than it may")
	}
	s.in.put(payload)
	s.received += uint64(len(payload))
	s.changed.Broadcast()
	return nil
}

// inOrderLocked checks that everything up to an offset has arrived, and nothing else.
func (s *stream) inOrderLocked(offset uint64) error {
	switch {
	case offset > s.received:
		return fmt.Errorf("a message was lost before byte %d of the stream", s.received)
	case offset < s.received:
		return fmt.Errorf("a message came twice, with byte %d of the stream", offset)
	}
	return nil
}

// resetLocked ends the stream as the peer says. Of what was sent, the peer has read h.offset bytes
// and will read no more, if that many were sent at all. h.room is where the peer's own stream has
// ended, if it has ended regularly.
//
// A RESET that comes from no stream refuses a message, which may be an OPEN that came twice: it says
// nothing of the bytes of a stream that is open.
func (s *stream) resetLocked(h header, payload []byte, from origin) {
	knows := !s.opened || from == s.peer
	switch {
	case h.room == noEnd:
		s.failLocked(lostf("%s (the other end says so)", strings.ToValidUTF8(cutReason(string(payload)), "?")), h.offset, knows)
	case h.room != s.received || s.peerEnd != noEnd && s.peerEnd != h.room:
		s.failLocked(lostf("a message was lost before byte %d of the stream", s.received), h.offset, knows)
	default:
		s.peerEnd = h.room
		s.failLocked(errGone, h.offset, knows)
	}
}

func cutReason(text string) string { return text[:min(len(text), reasonBytesMax)] }

// probe asks whether the peer is there, or says so. The offset makes the loss of the last message
// known. If somebody is sending, the next message does that as well.
func (s *stream) probe(k kind) {
	ordered := s.sendMu.TryLock()
	s.mu.Lock()
	h := s.headerLocked(k)
	s.mu.Unlock()
	if !ordered {
		h.offset = noEnd
	}
	s.say(h, nil)
	if ordered {
		s.sendMu.Unlock()
	}
}
