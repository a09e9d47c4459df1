package server

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

// Requests of a connection with shared memory come by two ways, and their ids grow only among those
// that came the same way. When the server drains, it may have accepted a request from the ring whose
// id is above those of requests that still lie in the socket. DRAIN counts these as accepted, so they
// have to be read. A readingOn is how far a reader has come with that.
type readingOn uint8

const (
	// readingAll is the state before the drain.
	readingAll readingOn = iota
	// readingArrived takes what lies in the socket when the drain begins.
	readingArrived
	// readingLast takes what the caller sent until it learned of the drain, or could not send any more.
	readingLast
)

// awaitCaller lets a caller on another machine read the last answers and DRAIN. What it has sent
// meanwhile is above the id in DRAIN, and is dropped: if it were left unread, closing would reset
// the connection, and that destroys what is on its way to the caller.
func (c *connection) awaitCaller() {
	if c.peer.Local || !c.calls.tellsCaller() {
		return
	}
	var dropped [512]byte
	until := c.service.readingEnds()
	for err := error(nil); err == nil || isTimeout(err) && time.Now().Before(until); {
		// The deadline by which the drain ended reading may be set later than this one.
		_ = c.carrier.SetReadDeadline(until)
		_, err = c.carrier.Read(dropped[:])
	}
}

// readingEnds returns until when a caller is read beyond its last call. That comes before the end of
// the drain, where what still runs counts as a function.
func (v *service) readingEnds() time.Time {
	now := time.Now()
	began := v.drainedAt.Load()
	if began == nil {
		return now // this connection alone ends
	}
	until, end := now.Add(wire.DrainReadingMs*time.Millisecond), began.Add(v.server.config.drainTimeout*7/8)
	if until.After(end) {
		return end
	}
	return until
}

// A restCarrier can be read to its end although the peer lives: after CloseRead the peer cannot send
// any more, and what it has sent can still be read.
type restCarrier interface {
	nowReader
	CloseRead() error
}

// readsOn reports whether there is more to be read after err, although the server drains.
func (r *reader) readsOn(err error) bool {
	c := r.connection
	carrier, ok := c.carrier.(restCarrier)
	if !ok || r.memory == nil || !c.calls.draining.Load() || !isTimeout(err) || r.readingOn == readingLast {
		return false
	}
	if r.readingOn == readingAll {
		r.readingOn, r.readingUntil = readingArrived, c.service.readingEnds()
		return true
	}
	r.readingOn = readingLast
	c.stores.endOfReading() // what is given back meanwhile is read too late for calls that wait for it
	c.calls.awaitIdle()
	c.output.finish()
	return carrier.CloseRead() == nil
}

// receiveRest reads what has arrived of a message that has need bytes in all, without waiting. If
// nothing has, that is the end: of what had arrived, or of all.
func (r *reader) receiveRest(need int) error {
	if err := r.makeRoom(need); err != nil {
		return err
	}
	if r.readingOn == readingArrived && time.Now().After(r.readingUntil) {
		return os.ErrDeadlineExceeded // of a caller that does not stop sending
	}
	carrier := r.connection.carrier
	former := len(r.input.unread())
	// The deadline by which the drain ends a wait may be set at any time, but only once.
	err := os.ErrDeadlineExceeded
	for round := 0; round < 2 && isTimeout(err); round++ {
		_ = carrier.SetReadDeadline(time.Time{})
		err = r.input.fillNow(carrier.(nowReader))
	}
	if errors.Is(err, io.EOF) || err == nil && len(r.input.unread()) == former {
		return os.ErrDeadlineExceeded
	}
	if err != nil {
		return err
	}
	r.nowNs = r.connection.server.clock.Ns()
	return r.noteArrivals(former)
}
