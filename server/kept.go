package server

import (
	"math/bits"

	"github.com/nearcall/nearcall/internal/wire"
)

// kept accounts for the memory of an output that waits for its peer. What goes beyond
// outputBytesFree is counted in the user's share, so that a peer that does not read
// cannot make the server hold everything that it has asked for. Buffers are counted at
// their full size, however much of them is used.
type kept struct {
	share   *share
	counted int
	writing int // bytes of what is being written
	waiting int // bytes of large frames whose senders wait for room

	promised int64         // the part of counted that is for replies of calls that have not returned
	gone     chan struct{} // closed when the output breaks; nil until somebody waits for the share
}

// socketOnly stands for the size of a payload that cannot go through memory.
const socketOnly = -1

// waitLocked waits for room for a frame of so many bytes. It reports false if the frame
// is large and the user gets no room for it within the time of a write. Small frames
// wait until others have been written. Frames that the ring takes do not wait, because
// the server does not hold them.
func (o *output) waitLocked(bytes, payloadBytes int) bool {
	o.keepPromiseLocked()
	for !o.broken {
		tooMuch := o.writing && len(o.pending) > 0 && len(o.pending)+bytes > o.pendingOutputBytesMax
		counted := o.countLocked(bytes)
		switch {
		case !tooMuch && (counted || len(o.pending)+o.kept.writing == 0 && bytes <= outputBytesFree):
			return true
		case payloadBytes != socketOnly && o.memoryTakesLocked(payloadBytes):
			return true
		case !tooMuch && !o.writing && len(o.pending) > 0:
			o.flushLocked()
		case !counted && bytes > outputBytesFree:
			if !o.waitForShareLocked(o.missingLocked(bytes), int64(bytes), o.timeout, o.goneLocked()) {
				return payloadBytes != socketOnly && o.memoryTakesLocked(payloadBytes)
			}
		default:
			o.waitForRoomLocked(bytes)
		}
	}
	return true
}

// waitForRoomLocked waits until something has been written. The size of a large frame
// was counted before.
func (o *output) waitForRoomLocked(bytes int) {
	if bytes <= outputBytesFree {
		bytes = 0
	}
	o.kept.waiting += bytes
	o.room.Wait()
	o.kept.waiting -= bytes
}

// countLocked makes sure that so many bytes more than there are now are counted, and
// reports whether there was room for them.
func (o *output) countLocked(bytes int) bool {
	more := o.missingLocked(bytes)
	if more <= 0 {
		return true
	}
	if !o.kept.share.take(more) {
		return false
	}
	o.kept.counted += int(more)
	return true
}

// missingLocked returns how much must still be counted for so many bytes more than
// there are now.
func (o *output) missingLocked(bytes int) int64 {
	k := &o.kept
	needed := o.heldLocked(bytes) + k.writing + k.waiting - outputBytesUncounted
	if needed <= k.counted {
		return 0
	}
	// What was promised is not a multiple of a step: a share that is just large enough
	// would have no room for further steps beside it.
	return inSteps(needed) - int64(k.counted)
}

// outputBytesLeast returns the smallest budget that has room for one frame, beside what
// connections keep for their next results.
func outputBytesLeast(frameBytes int) int64 {
	return inSteps(int(inSteps(frameBytes)) * sparePart / (sparePart - 1))
}

// inSteps returns what is counted for so many bytes.
func inSteps(bytes int) int64 {
	return int64((bytes + outputBytesStep - 1) / outputBytesStep * outputBytesStep)
}

// heldLocked returns how much memory the pending frames hold when so many bytes are
// added.
func (o *output) heldLocked(bytes int) int {
	need := len(o.pending) + bytes
	switch {
	case need <= outputBytesOwn:
		return need
	case !o.writing && bytes >= gatherBytesMin+wire.HeaderBytes:
		return cap(o.pending) + bytes // the payload stays where it is
	case need <= cap(o.pending):
		return cap(o.pending)
	}
	return o.nextBytesLocked(need)
}

// releaseLocked uncounts everything when nothing is kept any more.
func (o *output) releaseLocked() {
	k := &o.kept
	if k.counted > 0 && (o.broken || len(o.pending)+k.writing+k.waiting == 0) {
		o.keepPromiseLocked()
		k.share.giveBack(int64(k.counted))
		k.counted = 0
	}
}

// A large buffer grows by one growthPart-th, or to the next size that is lent.
const growthPart = 4

// growLocked makes room for so many bytes more. A large buffer is lent if there is one
// of that size.
func (o *output) growLocked(bytes int) {
	need := len(o.pending) + bytes
	if need <= cap(o.pending) {
		return
	}
	former := o.pending
	if need <= outputBytesOwn {
		o.pending = append(make([]byte, 0, 1<<bits.Len(uint(need-1))), former...)
		return
	}
	next := o.nextBytesLocked(need)
	if next == pooledBytes(next) {
		o.pending = append(o.buffers.get(next)[:0], former...)
	} else {
		o.pending = append(make([]byte, 0, next), former...)
	}
	o.buffers.put(former[:cap(former)])
}

// nextBytesLocked returns the size of the next buffer when so many bytes are needed:
// the next size that is lent, or just what is needed if the user may not have that
// much.
func (o *output) nextBytesLocked(need int) int {
	next := pooledBytes(max(need, min(cap(o.pending)+cap(o.pending)/growthPart, o.pendingOutputBytesMax)))
	if !o.kept.share.allows(int64(next + o.kept.writing + o.kept.waiting)) {
		return need
	}
	return next
}

// keepLocked keeps a buffer that has been written, unless it is large.
func (o *output) keepLocked(written []byte) {
	if cap(written) > outputBytesOwn {
		o.buffers.put(written[:cap(written)])
		written = nil
	}
	o.spare = written
}

// keepScratch keeps the memory of the result for the next result, unless that would be
// too much.
func (e *execution) keepScratch() {
	bytes := int64(cap(e.result))
	if bytes > outputBytesKept {
		return
	}
	if e.connection != nil && bytes > outputBytesOwn {
		if !e.connection.user.output.takeSpare(bytes - e.reserved) {
			return
		}
		e.reserved = bytes
	}
	e.scratch = e.result
}

// dropScratch gives back what keepScratch kept.
func (e *execution) dropScratch() {
	e.connection.user.output.giveBack(e.reserved)
	e.scratch, e.reserved = nil, 0
}
