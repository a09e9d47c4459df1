package sharedmemory

import (
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/wire"
)

// RecordBytesMin is the smallest capacity that the buffer for Take may have.
const RecordBytesMin = wire.HeaderBytes + inlineBytesMax

// An End is one side of a connection's memory. One goroutine at a time may use Put and
// MustWake, and one at a time all other methods; the two may be different goroutines.
type End struct {
	out        writer
	peerSleeps *atomic.Uint64
	woken      uint64 // the word of the peer for which WAKE was sent
	fence      atomic.Uint32

	in     reader
	sleeps *atomic.Uint64
	word   uint64 // the value in sleeps

	// Hints to the other side: when each last sent something to the other while that
	// slept, and where each runs.
	sent, peerSent *atomic.Uint64
	cpu, peerCPU   *atomic.Uint64

	marks Marks
}

// ServerEnd returns the server's end. It is asleep.
func (r *Regions) ServerEnd() *End { return r.end(r.server, r.caller, true) }

// CallerEnd returns the caller's end. It is asleep, as is the server, until
// Awake.
func (r *Regions) CallerEnd() *End { return r.end(r.caller, r.server, false) }

func (r *Regions) end(own, peer []byte, server bool) *End {
	ownLayout, peerLayout := r.geometry.callerRegion(), r.geometry.serverRegion()
	if server {
		ownLayout, peerLayout = peerLayout, ownLayout
	}
	e := &End{peerSleeps: word64(peer, sleepsOffset), sleeps: word64(own, sleepsOffset), word: 1,
		sent: word64(own, sentOffset), peerSent: word64(peer, sentOffset),
		cpu: word64(own, cpuOffset), peerCPU: word64(peer, cpuOffset)}
	e.out.init(own, ownLayout, r.geometry.Slots, word32(peer, takenOffset))
	e.in.init(peer, peerLayout, r.geometry.Slots, word32(own, takenOffset))
	e.marks.init(r.server, r.geometry.Marks)
	return e
}

// PeerSleeps reports whether the peer waits for the socket. Frames must then be sent
// there.
func (e *End) PeerSleeps() bool { return e.peerSleeps.Load()%2 == 1 }

// Attached reports whether the peer has ever looked at its ring.
func (e *End) Attached() bool { return e.peerSleeps.Load() > 1 }

// TellSleeper tells a peer that sleeps when something is sent to it. The peer learns
// from that what its sleep has cost.
func (e *End) TellSleeper(nowNs uint64) { e.sent.Store(nowNs) }

// Put puts a frame into the ring and reports whether there was room. body and further
// are the parts of its body, whose total length is in the header. After one or several
// frames, MustWake must be called.
func (e *End) Put(header *wire.Header, body, further []byte) bool {
	return e.out.write(header, body, further)
}

// PutParts is Put for a body that consists of any number of parts.
func (e *End) PutParts(header *wire.Header, parts [][]byte) bool {
	return e.out.writeParts(header, parts)
}

// HasRoom reports whether there is room for a frame with a body of so many bytes.
func (e *End) HasRoom(bytes int) bool { return e.out.hasRoom(bytes) }

// MustWake reports whether the peer has fallen asleep, perhaps without seeing what was
// put. WAKE must then be sent, once for each sleep.
func (e *End) MustWake() bool {
	e.Fence()
	word := e.peerSleeps.Load()
	if word%2 == 0 || word == e.woken {
		return false
	}
	e.woken = word
	return true
}

// Fence makes sure that what was put is visible before anything is looked at that follows.
// Any goroutine may call it.
func (e *End) Fence() { e.fence.Swap(0) }

// An Ahead is where the next frames will be put.
type Ahead struct{ line, other *byte }

// Ahead returns where the next frames will be put. It belongs with Put and MustWake.
func (e *End) Ahead() Ahead { return e.out.ahead() }

// Prefetch asks for the lines of the next frames, so that putting those does not wait for
// them. It is for a side that puts one frame after the other: if the peer answers each,
// its processor takes the lines back meanwhile, which costs a twentieth of a call.
func (a Ahead) Prefetch() { prefetchToWrite(a.line, a.other) }

// Ready reports whether a frame can be taken.
func (e *End) Ready() bool { return e.in.ready() }

// Take takes the next frame, with header and body as they would come from a socket. It
// uses a buffer with a capacity of at least RecordBytesMin, or the one that grow
// returns if it needs more. It returns nil if there is no frame. An error is ErrFault,
// ErrNoRoom, or means that the peer has broken the rules and the connection must be
// closed.
func (e *End) Take(into []byte, frameBytesMax int, grow func(bytes int) []byte) ([]byte, error) {
	return e.TakeApart(into, frameBytesMax, grow, nil)
}

// TakeApart is Take for a side that may want the body of a large frame elsewhere. It
// returns the header alone if apart has said where, and the body is there then, or nowhere.
func (e *End) TakeApart(into []byte, frameBytesMax int, grow func(bytes int) []byte, apart Apart) ([]byte, error) {
	frame, err := e.in.take(into, frameBytesMax, grow, apart)
	if frame != nil {
		// The peer may already have sent its WAKE for this sleep, so the next one needs
		// another number.
		e.Awake()
	}
	return frame, err
}

// Look looks at the ring so many times and reports whether there is a frame. It pauses
// in between, so that other programs on the same core can run.
func (e *End) Look(times int) bool {
	for range times {
		if e.in.ready() {
			return true
		}
		pause()
	}
	return false
}

// FallAsleep says that from now on this side waits for the socket. If there is a frame
// it reports false, and this side stays awake.
func (e *End) FallAsleep() bool {
	if e.word%2 == 0 {
		e.word++
		storeAndFence64(e.sleeps, e.word)
	}
	if e.Ready() {
		e.Awake()
		return false
	}
	return true
}

// Awake says that this side looks at its ring.
func (e *End) Awake() {
	if e.word%2 == 1 {
		e.word++
		e.sleeps.Store(e.word)
	}
}
