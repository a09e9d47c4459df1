package server

import (
	"math/bits"

	"github.com/nearcall/nearcall/internal/wire"
)

// kept is what of an output's memory waits for its peer, beyond that of outputBytesFree
// counted in the user's share, so that who does not read cannot make the server hold what it
// asked for. What is counted are buffers, however much of them is used.
type kept struct {
	share   *share
	counted int
	writing int // bytes of what is being written
	waiting int // of frames whose senders wait for room, where they are large

	promised int64         // what of counted is for replies of calls that have not returned
	gone     chan struct{} // closed when the output breaks; nil until somebody waits for the share
}

// socketOnly is in place of the bytes of a payload that cannot go through memory.
const socketOnly = -1

// waitLocked waits for room for a frame of so many bytes; it reports false when the user
// gets none for a large one within the time of a write. Small ones wait until others have been written.
// What the ring takes does not wait: the server holds nothing of it.
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

// waitForRoomLocked waits until something has been written. What a large frame takes
// meanwhile has been counted.
func (o *output) waitForRoomLocked(bytes int) {
	if bytes <= outputBytesFree {
		bytes = 0
	}
	o.kept.waiting += bytes
	o.room.Wait()
	o.kept.waiting -= bytes
}

// countLocked sees to it that bytes more than there are now are counted.
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

// missingLocked returns what must be counted for bytes more than there are now.
func (o *output) missingLocked(bytes int) int64 {
	k := &o.kept
	needed := o.heldLocked(bytes) + k.writing + k.waiting - outputBytesUncounted
	if needed <= k.counted {
		return 0
	}
	// What was promised is in no steps: beside it, a share that is just large enough has no more of them.
	return inSteps(needed) - int64(k.counted)
}

// outputBytesLeast returns the least budget that has room for one frame, also beside what
// connections keep for their next results.
func outputBytesLeast(frameBytes int) int64 {
	return inSteps(int(inSteps(frameBytes)) * sparePart / (sparePart - 1))
}

// inSteps returns what is counted for so many bytes.
func inSteps(bytes int) int64 {
	return int64((bytes + outputBytesStep - 1) / outputBytesStep * outputBytesStep)
}

// heldLocked returns what is held of what is pending when bytes more are.
func (o *output) heldLocked(bytes int) int {
	need := len(o.pending) + bytes
	switch {
	case need <= outputBytesOwn:
		return need
	case !o.writing && bytes >= gatherBytesMin+wire.HeaderBytes:
		return cap(o.pending) + bytes // which stay where they are
	case need <= cap(o.pending):
		return cap(o.pending)
	}
	return o.nextBytesLocked(need)
}

// releaseLocked gives back what was counted when nothing is kept any more.
func (o *output) releaseLocked() {
	k := &o.kept
	if k.counted > 0 && (o.broken || len(o.pending)+k.writing+k.waiting == 0) {
		o.keepPromiseLocked()
		k.share.giveBack(int64(k.counted))
		k.counted = 0
	}
}

// A large buffer grows by one part of so many, or to the next size that is lent.
const growthPart = 4

// growLocked makes room for so many bytes more. A large buffer is lent, where that fits.
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

// nextBytesLocked returns how large a buffer is next when so many bytes are needed: of the
// next size that is lent, or no larger than it must be where the user may not have that much.
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

// keepScratch keeps the result's memory for the next one, unless that would be too much.
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
