package client

import (
	"slices"
	"sync"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

// An empty buffer that is larger than this is not kept.
const outputBytesKept = 256 << 10

// An output collects the frames of all goroutines that share a connection. It knows at
// any time which requests the kernel has taken completely; that decides their outcomes
// if the connection breaks.
type output struct {
	carrier transport.OfferingCarrier
	// These are made once, so that writing allocates nothing. The first writes what
	// there is room for at once, the second waits for room.
	writeTry, writeWait func(transport.Room) (done bool)

	// Guarded by connection.mu. The goroutine that sets writing is the writer until it
	// clears it. memory is nil if there is only the socket.
	pending []byte
	writing bool
	memory  *sharedmemory.End

	// Guarded by sendMu, which is locked after connection.mu. Only the writer replaces
	// sending; others may withdraw frames of which nothing was sent.
	sendMu  sync.Mutex
	sending []byte
	sent    int
	failure error
	// attached holds the descriptors of requests of which nothing was sent, by id;
	// there are none left for a call that has ended. refused means that the kernel does
	// not take, for now, the descriptors whose turn it is.
	attached map[uint64][]int
	refused  bool
	// stopped means that nothing may be sent any more. It is set with both locks held,
	// so that either is enough to read it.
	stopped bool
	// These say what the kernel took before sending: the highest id of a complete
	// request, and the id of the last frame, or 0 if that was not a request.
	takenID, lastID uint64

	// gathering is held while a request is written directly, not through the buffers:
	// until that is over nobody knows how much of it the kernel has taken. The writer
	// locks it with connection.mu held, when nobody else can hold it. Those who need to
	// know what was sent lock it without connection.mu, after the connection was left.
	gathering sync.Mutex
}

func (o *output) init(carrier transport.OfferingCarrier) {
	o.carrier = carrier
	o.writeTry = func(room transport.Room) bool {
		o.writeOnce(room)
		return true
	}
	o.writeWait = func(room transport.Room) bool { return !o.writeOnce(room) }
}

// writeOnce writes what there is room for. It reports whether there was none. Only the
// writer calls it.
func (o *output) writeOnce(room transport.Room) (blocked bool) {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	if o.stopped || o.sent == len(o.sending) {
		return false
	}
	if len(o.attached) > 0 {
		return o.writeAttached(room)
	}
	n, err := room.WriteNow(o.sending[o.sent:])
	o.sent += n
	o.failure = err
	return n == 0 && err == nil
}

// done reports whether nothing is left of sending, and the error that ended it.
func (o *output) done() (done bool, err error) {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	return o.stopped || o.sent == len(o.sending), o.failure
}

// swap makes the pending bytes those that are to be sent. Preconditions: all of sending
// was sent; the caller is the writer and holds connection.mu.
func (o *output) swap() {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	o.takenID, o.lastID = o.progress()
	emptied := o.sending[:0]
	if cap(emptied) > outputBytesKept {
		emptied = nil
	}
	o.sending, o.sent, o.pending = o.pending, 0, emptied
}

// setGathered takes over from a direct write: the kernel has taken sent bytes of the
// frame, and the rest is copied into the buffers.
func (o *output) setGathered(id uint64, parts [][]byte, sent int) {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	o.takenID, o.lastID = o.progress()
	o.sending, o.sent = o.sending[:0], 0
	bytes := 0
	for _, part := range parts {
		bytes += len(part)
	}
	if sent == bytes {
		o.takenID, o.lastID = id, id
		return
	}
	o.sending = slices.Concat(parts...)
	o.sent = sent
}

// progress returns the present takenID and lastID. Preconditions: sendMu is held.
func (o *output) progress() (takenID, lastID uint64) {
	takenID, lastID = o.takenID, o.lastID
	for start := 0; start < o.sent; {
		end, id := frameAt(o.sending, start)
		lastID = id
		if id != 0 && end <= o.sent {
			takenID = id
		}
		start = end
	}
	return takenID, lastID
}

// stop makes sure that nothing more is sent, and drops what is pending. Preconditions:
// connection.mu is held.
func (o *output) stop() {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	o.stopped = true
	o.pending = nil
}

// withdraw removes a request if no byte of it was sent, and reports whether it did.
// Preconditions: connection.mu is held.
func (o *output) withdraw(id uint64) bool {
	if removeFrame(&o.pending, 0, id) {
		o.withdrawn(id)
		return true
	}
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	removed := removeFrame(&o.sending, o.sent, id)
	if removed {
		delete(o.attached, id)
	}
	return removed
}

// removeFrame removes the request with that id from the frames in b if it begins at
// from or later.
func removeFrame(b *[]byte, from int, id uint64) bool {
	for start := 0; start < len(*b); {
		end, found := frameAt(*b, start)
		if found == id {
			if start < from {
				return false
			}
			*b = slices.Delete(*b, start, end)
			return true
		}
		start = end
	}
	return false
}

// frameAt returns where the frame at start ends, and its id if it is a request.
func frameAt(b []byte, start int) (end int, id uint64) {
	header := wire.ParseHeader(b[start:])
	if header.Type == wire.Request || header.Type == wire.Resolve {
		id = header.CallID
	}
	return start + wire.HeaderBytes + int(header.Length), id
}

// writeVector writes the parts of a frame together, and returns how much was taken. It may
// change parts.
func (o *output) writeVector(parts [][]byte) (int, error) {
	n, err := o.carrier.WriteBuffers(parts)
	return int(n), err
}
