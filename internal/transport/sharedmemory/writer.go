package sharedmemory

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/wire"
)

// A lent says which bytes of the arena a frame's body has; none: bytes is 0.
type lent struct{ start, bytes int }

// A writer puts frames into the ring of its own region. Used by one goroutine
// at a time.
type writer struct {
	region      []byte
	firstSlot   int
	firstArena  int
	mask        uint32
	put         uint32 // frames put so far
	free        uint32 // frames put that are known to be taken
	peerTaken   *atomic.Uint32
	arena       arena
	lentBySlots []lent
}

func (w *writer) init(region []byte, l layout, slots int, peerTaken *atomic.Uint32) {
	w.region, w.firstSlot, w.firstArena, w.mask = region, l.slots, l.arena, uint32(slots-1)
	w.peerTaken = peerTaken
	w.arena.pages = region[l.arena:l.bytes]
	w.lentBySlots = make([]lent, slots)
}

// write puts a frame, whose header's lengths are right, and reports whether
// there was room. body and further are the body's parts in their order.
func (w *writer) write(header *wire.Header, body, further []byte) bool {
	bytes := len(body) + len(further)
	if w.put-w.free > w.mask && !w.reclaim() {
		return false
	}
	index, slot := int(w.put&w.mask), w.slot(w.put)
	room := slot[bodyOffset:]
	place := 0
	if bytes > inlineBytesMax {
		if room, place = w.lend(index, bytes); room == nil {
			return false
		}
	}
	binary.LittleEndian.PutUint32(slot[placeOffset:], uint32(place))
	header.Put(slot[headerOffset:])
	if bytes <= cachedBytesMax {
		n := copy(room, body)
		if len(further) > 0 {
			copy(room[n:], further)
		}
	} else {
		n := copyCached(room, body)
		copyCached(room[n:], further)
	}
	w.publish(slot)
	return true
}

// ahead returns what is to be written next: of the slots that follow, those lines that the
// peer does not look at while it waits.
func (w *writer) ahead() Ahead {
	return Ahead{&w.slot(w.put)[lineBytes], &w.slot(w.put + 1)[0]}
}

func (w *writer) slot(put uint32) []byte {
	return w.region[w.firstSlot+int(put&w.mask)*slotBytes:][:slotBytes:slotBytes]
}

// publish lets the peer see the next slot.
func (w *writer) publish(slot []byte) {
	w.put++
	storeRelease32(word32(slot, sequenceOffset), w.put)
}

// writeParts is write for a body of any number of parts, which does not fit into a slot.
func (w *writer) writeParts(header *wire.Header, parts [][]byte) bool {
	if w.put-w.free > w.mask && !w.reclaim() {
		return false
	}
	index, slot := int(w.put&w.mask), w.slot(w.put)
	room, place := w.lend(index, int(header.Length))
	if room == nil {
		return false
	}
	binary.LittleEndian.PutUint32(slot[placeOffset:], uint32(place))
	header.Put(slot[headerOffset:])
	for _, part := range parts {
		room = room[copyCached(room, part):]
	}
	w.publish(slot)
	return true
}

// hasRoom looks anew at what the reader has given back.
func (w *writer) hasRoom(bytes int) bool {
	if !w.reclaim() {
		return false
	}
	if bytes <= inlineBytesMax {
		return true
	}
	if bytes > len(w.arena.pages) {
		return false
	}
	_, found := w.arena.room(bytes)
	return found
}

// lend finds bytes of the arena for the body in a slot.
func (w *writer) lend(index, bytes int) (room []byte, place int) {
	if bytes > len(w.arena.pages) {
		return nil, 0
	}
	start, found := w.arena.room(bytes)
	if w.arena.live > 0 && (!found || start > 0) {
		// What the reader has given back since is worth a cache miss: a body at
		// the start again is in memory that is warm.
		w.reclaim()
		start, found = w.arena.room(bytes)
	}
	if !found {
		return nil, 0
	}
	if room = w.arena.lend(start, bytes); room != nil {
		w.lentBySlots[index] = lent{start, bytes}
	}
	return room, w.firstArena + start
}

// reclaim takes back what the reader says it has taken, and reports whether
// there is a free slot. A number that cannot be is the peer's own damage, and
// counts as nothing.
func (w *writer) reclaim() bool {
	taken := w.peerTaken.Load()
	if taken-w.free > w.put-w.free {
		return w.put-w.free <= w.mask
	}
	for ; w.free != taken; w.free++ {
		body := &w.lentBySlots[w.free&w.mask]
		if body.bytes > 0 {
			w.arena.giveBack(body.start, body.bytes)
			body.bytes = 0
		}
	}
	return w.put-w.free <= w.mask
}
