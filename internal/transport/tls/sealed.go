package tls

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

// sealedBytesMax is how much is sealed, and therefore taken, before the socket has taken
// what was sealed earlier.
const sealedBytesMax = wire.TlsSealedBytesMax

// sealedBytesMost bounds what a peer can make crypto/tls seal by itself, which are answers to
// changes of keys, while it reads nothing.
const sealedBytesMost = 4 * sealedBytesMax

var errFlooded = errors.New("the peer asks for more answers than it reads")

// An empty buffer that is larger than this is not kept, because most connections are idle.
const sealedBytesKept = 8 << 10

// A sink is the connection below a tls.Conn. Reads go to the socket. What is written is kept
// in memory until it is flushed, so that writing neither waits nor fails.
type sink struct {
	socket net.Conn
	// offer is the socket, or nil if it offers no room. Only the goroutine that holds mu, or
	// the one that empties sealed, uses it.
	offer  transport.OfferingCarrier
	taking func(transport.Room) (done bool) // takeRoom, made once
	quiet  transport.QuietCarrier           // the socket, or nil

	// slots is not nil while a server agrees on keys; see enterSlot. Only the goroutine that
	// does so uses these.
	slots  chan struct{}
	inSlot bool

	// unsent is set while sealed has bytes that were not flushed. It may be read without mu.
	unsent atomic.Bool
	gone   chan struct{} // closed with the socket

	// mu protects what follows; changed is broadcast when there may be room, or never again.
	mu      sync.Mutex
	changed sync.Cond
	sealed  []byte
	sent    int    // bytes of sealed that the socket has taken
	passed  uint64 // all bytes that the socket has taken
	// emptying is set while a goroutine sends what the socket has not taken at once.
	emptying bool
	failure  error // why nothing can be sent any more

	closed    bool // nothing is taken any more
	finishing bool // nothing is sealed any more
	shut      bool // the socket is closed

	roomDeadline time.Time
	timer        *time.Timer
}

func (s *sink) init(socket net.Conn) {
	s.socket, s.gone = socket, make(chan struct{})
	carrier := transport.Carry(socket)
	s.offer, _ = carrier.(transport.OfferingCarrier)
	s.quiet, _ = carrier.(transport.QuietCarrier)
	s.taking = s.takeRoom
	s.changed.L = &s.mu
}

// Write keeps what crypto/tls has sealed. It never waits.
func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sealed)-s.sent+len(b) > sealedBytesMost {
		s.failLocked(errFlooded)
		return 0, errFlooded
	}
	s.sealed = append(s.sealed, b...)
	s.unsent.Store(true)
	return len(b), nil
}

// Read flushes first, because what it waits for may be the answer. If nothing can be sent any more,
// it reads nevertheless: answers to what was sent before may have arrived, and crypto/tls keeps
// every error and reads nothing after it. The writer meets the failure itself.
func (s *sink) Read(b []byte) (int, error) {
	if s.unsent.Load() {
		if err := s.flush(); errors.Is(err, errFlooded) {
			return 0, err
		}
	}
	if s.slots == nil {
		return s.socket.Read(b)
	}
	s.leaveSlot()
	defer s.enterSlot()
	return s.socket.Read(b)
}

// enterSlot waits until few enough connections of the server compute keys. The slot is left
// while the peer is waited for, so that peers that say nothing hold none.
func (s *sink) enterSlot() {
	s.slots <- struct{}{}
	s.inSlot = true
}

func (s *sink) leaveSlot() {
	if s.inSlot {
		s.inSlot = false
		<-s.slots
	}
}

// mark returns how far the socket has taken, for hasTakenSince.
func (s *sink) mark() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed
}

// hasTakenSince reports whether the socket has taken anything since the mark, or is perhaps
// taking something now.
func (s *sink) hasTakenSince(mark uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed > mark || s.emptying
}

// flush sends what the socket takes at once, and leaves the rest to a goroutine.
func (s *sink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushLocked()
}

func (s *sink) flushLocked() error {
	s.unsent.Store(false)
	if s.emptying || len(s.sealed) == 0 || s.failure != nil {
		return s.failure
	}
	if s.offer != nil {
		if err := s.offer.Offer(s.taking); err != nil {
			s.failLocked(err)
		}
	}
	if len(s.sealed) > 0 && s.failure == nil {
		s.emptying = true
		go s.empty()
	}
	return s.failure
}

// takeRoom sends what there is room for. Preconditions: mu is held.
func (s *sink) takeRoom(room transport.Room) (done bool) {
	n, err := room.WriteNow(s.sealed[s.sent:])
	s.sentLocked(n)
	if err != nil {
		s.failLocked(err)
	}
	return true
}

// sentLocked counts what the socket has taken.
func (s *sink) sentLocked(n int) {
	s.passed += uint64(n)
	s.sent += n
	if s.sent < len(s.sealed) {
		return
	}
	s.sealed, s.sent = s.sealed[:0], 0
	if cap(s.sealed) > sealedBytesKept {
		s.sealed = nil
	}
	s.changed.Broadcast()
}

// failLocked notes that nothing can be sent any more.
func (s *sink) failLocked(err error) {
	if s.failure == nil {
		s.failure = err
	}
	s.sealed, s.sent = nil, 0
	s.changed.Broadcast()
}

// empty sends what is sealed and waits for the socket. It ends when all is sent. What the socket
// has taken is counted before anybody can see why the rest failed.
func (s *sink) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.sealed) > s.sent && s.failure == nil {
		rest := s.sealed[s.sent:]
		s.mu.Unlock()
		// What is appended meanwhile lies behind rest.
		n, err := s.sendSome(rest)
		s.mu.Lock()
		s.sentLocked(n)
		if err != nil {
			s.failLocked(err)
		}
	}
	s.emptying = false
	s.unsent.Store(false)
	s.shutLocked()
}

// sendSome waits until the socket takes something.
func (s *sink) sendSome(b []byte) (n int, err error) {
	if s.offer == nil {
		return s.socket.Write(b)
	}
	var failure error
	err = s.offer.Offer(func(room transport.Room) bool {
		n, failure = room.WriteNow(b)
		return n > 0 || failure != nil
	})
	if err == nil {
		err = failure
	}
	return n, err
}

// hasRoom reports whether something can be sealed now.
func (s *sink) hasRoom() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, net.ErrClosed
	}
	err := s.flushLocked()
	return err == nil && len(s.sealed) == 0, err
}

// writable returns why nothing may be sealed any more, or not now.
func (s *sink) writable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writableLocked()
}

func (s *sink) writableLocked() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.failure != nil:
		return s.failure
	case !s.roomDeadline.IsZero() && !time.Now().Before(s.roomDeadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// awaitRoom waits until something can be sealed, within the write deadline.
func (s *sink) awaitRoom() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := s.writableLocked(); err != nil {
			return err
		}
		if err := s.flushLocked(); err != nil || len(s.sealed) == 0 {
			return err
		}
		s.changed.Wait()
	}
}

// setRoomDeadline sets until when awaitRoom waits.
func (s *sink) setRoomDeadline(deadline time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.roomDeadline = deadline
	if s.timer != nil {
		s.timer.Stop()
	}
	if !deadline.IsZero() {
		s.timer = time.AfterFunc(time.Until(deadline), s.wake)
	}
	s.changed.Broadcast()
	return nil
}

// wake wakes those who wait for room.
func (s *sink) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

func (s *sink) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
