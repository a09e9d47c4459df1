package server

import (
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
	// Payloads from here on are written from where they are instead of being
	// copied into the buffer.
	gatherBytesMin = 16 << 10
	// The write deadline is renewed when it is older than this, instead of at
	// every write: setting one costs a tenth of a call.
	deadlineStep = time.Second
	// This much pending is written without waiting for the flush.
	outputBytesHeld = 32 << 10
	// What an output keeps; larger buffers are lent.
	outputBytesOwn = 4 << 10
	// Where typed results are encoded: beyond this it is given back.
	outputBytesKept = 64 << 10
)

// An output collects frames of all goroutines of a connection and writes those
// that are ready together at once. Whoever flushes first writes for the others.
type output struct {
	conn                  net.Conn
	timeout               time.Duration
	pendingOutputBytesMax int
	clock                 monotonic.Clock

	// gate is closed before the connection is; see connection.gate.
	gate *atomic.Bool

	// mu protects what follows. While writing is set the writer alone uses
	// spare, vector and renewedNs.
	mu        sync.Mutex
	room      sync.Cond // broadcast when pending was taken or the output closed
	pending   []byte
	waiting   atomic.Bool // pending is not empty; to be read without the lock
	spare     []byte
	writing   bool
	broken    bool
	vector    net.Buffers
	renewedNs uint64
	memory    *sharedmemory.End // nil: there is the socket only
	kept      kept
	buffers   *bufferPool
}

func (o *output) init(conn net.Conn, c *config, clock monotonic.Clock, gate *atomic.Bool, share *share, buffers *bufferPool) {
	o.buffers = buffers
	o.gate, o.kept.share = gate, share
	o.conn, o.timeout, o.pendingOutputBytesMax, o.clock = conn, c.writeTimeout, c.pendingOutputBytesMax, clock
	o.room.L = &o.mu
}

// append adds a frame to what will be written. It waits while a peer that does
// not read has too much pending. The header's length is set here. admitted, if
// not nil, is called when the wait is over and before the peer can see a byte;
// it must not wait. Where the user gets no room for a frame append reports false and
// drops it, which happens to none of up to outputBytesFree.
func (o *output) append(header *wire.Header, payload []byte, admitted func()) bool {
	header.Length = uint32(len(payload))
	o.mu.Lock()
	defer o.mu.Unlock()
	room := o.waitLocked(wire.HeaderBytes+len(payload), len(payload))
	if admitted != nil {
		admitted()
	}
	if o.broken || !room {
		return room
	}
	if o.putLocked(header, payload) {
		o.releaseLocked()
		return true
	}
	if len(payload) >= gatherBytesMin && !o.writing {
		o.writeGatheredLocked(header, payload)
		return true
	}
	o.growLocked(wire.HeaderBytes + len(payload))
	o.pending = header.Append(o.pending)
	o.pending = append(o.pending, payload...)
	o.waiting.Store(true)
	if len(o.pending) >= outputBytesHeld {
		o.flushLocked()
	}
	return true
}

// raw adds bytes that are not a frame; what it reports is as for append.
func (o *output) raw(data []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.waitLocked(len(data), socketOnly) {
		return false
	}
	o.growLocked(len(data))
	o.pending = append(o.pending, data...)
	o.waiting.Store(true)
	return true
}

// flush writes what is pending, unless another goroutine is writing and will.
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

// finish writes what is pending and waits for whoever is writing, so that the
// connection can be closed without losing a frame.
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
	o.unlockAndWrite(cap(taken), func() error {
		_, err := o.conn.Write(taken)
		return err
	})
	o.keepLocked(taken)
}

// writeGatheredLocked writes what is pending and then the frame. The payload is
// the caller's again when it returns.
func (o *output) writeGatheredLocked(header *wire.Header, payload []byte) {
	taken := header.Append(o.pending)
	o.pending = o.spare[:0]
	o.waiting.Store(false)
	o.vector = append(o.vector[:0], taken, payload)
	o.unlockAndWrite(cap(taken)+len(payload), func() error {
		if gathering, ok := o.conn.(transport.GatheringConn); ok {
			return gathering.WriteBuffers(o.vector)
		}
		rest := o.vector
		_, err := rest.WriteTo(o.conn)
		return err
	})
	clear(o.vector[:cap(o.vector)])
	o.keepLocked(taken)
	o.flushLocked()
}

// unlockAndWrite runs write, of what takes so many bytes, without the lock. A failed or overdue
// write breaks the output and closes the connection, which makes the reader notice.
func (o *output) unlockAndWrite(bytes int, write func() error) {
	o.writing, o.kept.writing = true, bytes
	o.mu.Unlock()
	o.renewDeadline()
	err := write()
	o.mu.Lock()
	o.writing, o.kept.writing = false, 0
	if err != nil {
		o.breakLocked()
		o.gate.Store(true)
		o.conn.Close()
	}
	o.releaseLocked()
	o.room.Broadcast()
}

func (o *output) renewDeadline() {
	now := o.clock.Ns()
	if now-o.renewedNs < uint64(deadlineStep) && o.renewedNs != 0 {
		return
	}
	o.renewedNs = now
	// A failure means that the connection is closed, which the write reports.
	_ = o.conn.SetWriteDeadline(time.Now().Add(o.timeout + deadlineStep))
}

// closed wakes those who wait for room.
func (o *output) closed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.breakLocked()
	o.releaseLocked()
	o.room.Broadcast()
}
