package client

import (
	"net"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

// A countedCarrier counts what a carrier takes that may say from which byte on nothing was
// delivered. Other carriers are used as they are, and cost nothing more.
type countedCarrier struct {
	transport.OfferingCarrier
	of    transport.Undelivered
	taken atomic.Uint64
}

// counted returns a carrier to use in place of this one, and the same as a countedCarrier, or
// nil if the carrier says nothing of that kind.
func counted(carrier transport.OfferingCarrier) (transport.OfferingCarrier, *countedCarrier) {
	of, says := carrier.(transport.Undelivered)
	if !says {
		return carrier, nil
	}
	made := &countedCarrier{OfferingCarrier: carrier, of: of}
	return made, made
}

func (c *countedCarrier) Write(b []byte) (int, error) {
	n, err := c.OfferingCarrier.Write(b)
	c.taken.Add(uint64(n))
	return n, err
}

func (c *countedCarrier) WriteBuffers(buffers net.Buffers) (int64, error) {
	n, err := c.OfferingCarrier.WriteBuffers(buffers)
	c.taken.Add(uint64(n))
	return n, err
}

func (c *countedCarrier) Offer(take func(transport.Room) bool) error {
	return c.OfferingCarrier.Offer(func(room transport.Room) bool { return take(countedRoom{room, &c.taken}) })
}

type countedRoom struct {
	room  transport.Room
	taken *atomic.Uint64
}

// WriteNow implements transport.Room.
func (r countedRoom) WriteNow(b []byte) (int, error) {
	n, err := r.room.WriteNow(b)
	r.taken.Add(uint64(n))
	return n, err
}

// noteTaken notes that all of the request comes after what the carrier has taken so far.
// Preconditions: c.mu is held, and the request was not appended to the output yet.
func (c *connection) noteTaken(r *call) {
	if c.counted != nil {
		r.takenBefore = c.counted.taken.Load()
	}
}

// neverArrived reports whether the carrier says that the end of a request did not reach the
// server and never will.
func (e *ending) neverArrived(r *call) bool {
	return e.undelivered && !r.inMemory && e.undeliveredFrom < r.takenBefore+wire.HeaderBytes+uint64(r.header.Length)
}
