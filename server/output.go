package server

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// Payloads of at least this size are written from where they lie, instead of being
	// copied into the buffer.
	gatherBytesMin = 16 << 10
	// The write deadline is renewed if it is older than this, instead of at every
	// write, because setting it costs a tenth of a call.
	deadlineStep = time.Second
	// So much is written at once, without waiting for the flush.
	outputBytesHeld = 32 << 10
	// The largest buffer that an output keeps. Larger ones are lent.
	outputBytesOwn = 4 << 10
	// The largest buffer for encoding typed results that is kept. Larger ones are given
	// back.
	outputBytesKept = 64 << 10
)

// An output collects the frames of all goroutines of a connection, and writes those
// that are ready at the same time together. The goroutine that flushes first writes for
// the others.
type output struct {
	carrier               transport.Carrier
	offering              transport.OfferingCarrier // carrier, or nil if it offers no room
	timeout               time.Duration
	pendingOutputBytesMax int
	clock                 monotonic.Clock

	// gate is set before the connection is closed; see connection.gate.
	gate *atomic.Bool

	// mu protects what follows. While writing is set, only the writer uses spare,
	// vector, renewedNs and offer.
	mu        sync.Mutex
	room      sync.Cond // broadcast when pending was taken or the output closed
	pending   []byte
	waiting   atomic.Bool // whether pending has bytes; may be read without the lock
	spare     []byte
	writing   bool
	broken    bool
	vector    net.Buffers
	renewedNs uint64 // when a write deadline was set, 0 if there is none
	offer     offer
	memory    *sharedmemory.End // nil if there is only the socket
	kept      kept
	buffers   *bufferPool
}

func (o *output) init(carrier transport.Carrier, c *config, clock monotonic.Clock, gate *atomic.Bool, share *share, buffers *bufferPool) {
	o.buffers = buffers
	o.gate, o.kept.share = gate, share
	o.carrier, o.timeout, o.pendingOutputBytesMax, o.clock = carrier, c.writeTimeout, c.pendingOutputBytesMax, clock
	o.room.L = &o.mu
	o.offering, _ = carrier.(transport.OfferingCarrier)
	o.offer.take = o.offer.takeRoom
}

// append adds a frame to what will be written, and sets its length in the header. It
// waits while too much is pending for a peer that does not read. admitted, if not nil,
// is called when the wait is over and before the peer can see a byte; it must not wait.
// If the user gets no room for the frame, append drops it and reports false. That never
// happens to frames of up to outputBytesFree.
func (o *output) append(header *wire.Header, payload []byte, admitted func()) bool {
	header.Length = uint32(len(payload))
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.appendLocked(header, payload, nil, admitted)
}

// appendParts is append for a large payload in parts, which it may change.
func (o *output) appendParts(header *wire.Header, parts [][]byte, admitted func()) bool {
	header.Length = 0
	for _, part := range parts {
		header.Length += uint32(len(part))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.appendLocked(header, nil, parts, admitted)
}

// appendLocked takes either a payload or its parts.
func (o *output) appendLocked(header *wire.Header, payload []byte, parts [][]byte, admitted func()) bool {
	bytes := int(header.Length)
	room := o.waitLocked(wire.HeaderBytes+bytes, bytes)
	if admitted != nil {
		admitted()
	}
	if o.broken || !room {
		return room
	}
	if o.putLocked(header, payload, parts) {
		o.releaseLocked()
		return true
	}
	if bytes >= gatherBytesMin && !o.writing {
		o.writeGatheredLocked(header, payload, parts)
		return true
	}
	o.growLocked(wire.HeaderBytes + bytes)
	o.pending = append(header.Append(o.pending), payload...)
	for _, part := range parts {
		o.pending = append(o.pending, part...)
	}
	o.waiting.Store(true)
	if len(o.pending) >= outputBytesHeld {
		o.flushLocked()
	}
	return true
}

// raw adds bytes that are not a frame, in one or more parts. It reports what append
// reports.
func (o *output) raw(parts ...[]byte) bool {
	bytes := 0
	for _, part := range parts {
		bytes += len(part)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := o.waitLocked(bytes, socketOnly); o.broken || !room {
		return room // what is broken takes nothing, because nobody would write or count it
	}
	o.growLocked(bytes)
	for _, part := range parts {
		o.pending = append(o.pending, part...)
	}
	o.waiting.Store(true)
	if len(o.pending) >= outputBytesHeld {
		o.flushLocked()
	}
	return true
}

// flush writes what is pending, unless another goroutine is writing and will do so.
func (o *output) flush() {
	if !o.waiting.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushLocked()
}

func (o *output) flushLocked() {
	for len(o.pending) > 0 && !o.writing && !o.broken {
		o.writePendingLocked()
	}
}

// finish writes what is pending and waits for the goroutine that is writing, so that
// the connection can be closed without losing a frame.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for (o.writing || len(o.pending) > 0) && !o.broken {
		if o.writing {
			o.room.Wait()
		} else {
			o.writePendingLocked()
		}
	}
}

func (o *output) writePendingLocked() {
	taken := o.pending
	o.pending = o.spare[:0]
	o.waiting.Store(false)
	o.unlockAndWrite(cap(taken), func() error { return o.write(taken) })
	o.keepLocked(taken)
}

// writeGatheredLocked writes what is pending and then the frame. The payload, or its parts,
// belong to the caller again when it returns.
func (o *output) writeGatheredLocked(header *wire.Header, payload []byte, parts [][]byte) {
	taken := header.Append(o.pending)
	o.pending = o.spare[:0]
	o.waiting.Store(false)
	o.vector = append(append(o.vector[:0], taken, payload), parts...)
	o.unlockAndWrite(cap(taken)+int(header.Length), func() error {
		o.renewDeadline()
		_, err := o.carrier.WriteBuffers(o.vector)
		return err
	})
	clear(o.vector[:cap(o.vector)])
	o.keepLocked(taken)
	o.flushLocked()
}

// unlockAndWrite calls write without holding the lock; what it writes takes so many
// bytes. A write that fails or is overdue breaks the output and closes the connection,
// which the reader notices.
func (o *output) unlockAndWrite(bytes int, write func() error) {
	o.writing, o.kept.writing = true, bytes
	o.mu.Unlock()
	err := write()
	o.mu.Lock()
	o.writing, o.kept.writing = false, 0
	if err != nil {
		o.breakLocked()
		o.gate.Store(true)
		o.carrier.Close()
	}
	o.releaseLocked()
	o.room.Broadcast()
}

// An offer is what write gives to a carrier that offers room. take is made once, so that
// writing allocates nothing.
type offer struct {
	left    []byte
	failure error
	take    func(transport.Room) (done bool)
}

func (f *offer) takeRoom(room transport.Room) bool {
	taken, err := room.WriteNow(f.left)
	f.left, f.failure = f.left[taken:], err
	return true
}

// write writes all of data. Only what the peer has to make room for needs a deadline; one
// that is set for every write costs a reading of the clock, and its timer wakes a server
// that has become idle.
func (o *output) write(data []byte) error {
	if o.offering != nil && o.withoutDeadline() {
		o.offer.left = data
		err := errors.Join(o.offering.Offer(o.offer.take), o.offer.failure)
		data, o.offer.left = o.offer.left, nil
		if err != nil || len(data) == 0 {
			return err
		}
	}
	o.renewDeadline()
	_, err := o.carrier.Write(data)
	return err
}

// withoutDeadline reports whether there is no write deadline. It lifts one that is old.
func (o *output) withoutDeadline() bool {
	if o.renewedNs != 0 && o.clock.Ns()-o.renewedNs >= uint64(deadlineStep) {
		o.liftDeadline()
	}
	return o.renewedNs == 0
}

func (o *output) liftDeadline() {
	o.renewedNs = 0
	// If this fails the connection is closed, which the next write will report.
	_ = o.carrier.SetWriteDeadline(time.Time{})
}

func (o *output) renewDeadline() {
	now := o.clock.Ns()
	if now-o.renewedNs < uint64(deadlineStep) && o.renewedNs != 0 {
		return
	}
	o.renewedNs = now
	// If this fails the connection is closed, which the write will report.
	_ = o.carrier.SetWriteDeadline(time.Now().Add(o.timeout + deadlineStep))
}

// closed breaks the output and wakes the goroutines that wait for room.
func (o *output) closed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.breakLocked()
	o.releaseLocked()
	o.room.Broadcast()
}
