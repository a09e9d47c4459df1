package sharedmemory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/wire"
)

// ErrFault means that memory of the peer's region could not be read, because the
// machine has no page for it.
var ErrFault = errors.New("nearcall: a page of the peer's region cannot be read")

// ErrNoRoom means that there was no room for a frame. The frame was taken from the
// ring, but only its header was kept.
var ErrNoRoom = errors.New("nearcall: there is no room for a frame")

// An Apart says where the body of a large frame goes, of which only the header has been
// seen.
type Apart func(header []byte, bytes int) Place

// A Place is where a body goes. The zero value stands for behind the header.
type Place struct {
	// To is what the body is appended to. What is copied is exactly the body, so that
	// nothing larger is allocated or zeroed before.
	To *[]byte
	// Read reads the body where it lies, and keeps nothing of it. The peer may change it
	// meanwhile.
	Read func(body []byte)
	// Drop leaves the body where it lies, because nobody wants it.
	Drop bool
}

// apartBytesMin is the size from which on a body may go apart.
const apartBytesMin = 4 << 10

// A reader takes frames from the ring of the peer's region. One goroutine at a time may
// use it.
type reader struct {
	region     []byte
	firstSlot  int
	firstArena int
	mask       uint32
	seen       uint32 // frames taken so far
	next       *atomic.Uint32
	taken      *atomic.Uint32 // lies in this side's own region
}

func (r *reader) init(region []byte, l layout, slots int, taken *atomic.Uint32) {
	r.region, r.firstSlot, r.firstArena, r.mask, r.taken = region, l.slots, l.arena, uint32(slots-1), taken
	r.watchNext()
}

func (r *reader) slot() []byte {
	return r.region[r.firstSlot+int(r.seen&r.mask)*slotBytes:][:slotBytes:slotBytes]
}

func (r *reader) watchNext() { r.next = word32(r.slot(), sequenceOffset) }

// ready reports whether a frame is there.
func (r *reader) ready() bool { return r.next.Load() == r.seen+1 }

// take copies the next frame, header and body as on a socket, to the start of into, or
// of what grow returns if into is too small. It returns nil if there is no frame, and
// the header with ErrNoRoom if grow returns nil. What grow has returned is returned
// with any error, too. The result is private memory, which the peer cannot change. It is
// the header alone if apart, which may be nil, has found another place for the body.
func (r *reader) take(into []byte, frameBytesMax int, grow func(bytes int) []byte, apart Apart) (frame []byte, err error) {
	if !r.ready() {
		return nil, nil
	}
	slot := r.slot()
	place := int(binary.LittleEndian.Uint32(slot[placeOffset:]))
	into = into[:cap(into)]
	copy(into[:wire.HeaderBytes+firstLineBody], slot[headerOffset:lineBytes])
	bytes := int(binary.LittleEndian.Uint32(into))
	if bytes > frameBytesMax {
		// The parser of the header will report that.
		return into[:wire.HeaderBytes], nil
	}
	if place != 0 {
		into, bytes, err = r.takeFromArena(into, place, bytes, grow, apart)
	} else if bytes > firstLineBody {
		if bytes > inlineBytesMax {
			return nil, &wire.ProtocolError{Text: fmt.Sprintf("a slot with %d bytes of body (at most %d)", bytes, inlineBytesMax)}
		}
		copy(into[wire.HeaderBytes+firstLineBody:], slot[lineBytes:])
	}
	if err == ErrNoRoom {
		bytes = 0
	} else if err != nil {
		return into[:0], err
	}
	r.seen++
	storeRelease32(r.taken, r.seen)
	r.watchNext()
	return into[:wire.HeaderBytes+bytes], err
}

// takeFromArena copies a body behind the header that is in into, or apart. It returns how
// many bytes follow the header.
func (r *reader) takeFromArena(into []byte, place, bytes int, grow func(bytes int) []byte, apart Apart) (_ []byte, behind int, err error) {
	if place < r.firstArena || place%arenaAlignment != 0 || place > len(r.region)-bytes {
		return nil, 0, &wire.ProtocolError{Text: fmt.Sprintf("a body of %d bytes at place %d (the arena is from %d to %d)", bytes, place, r.firstArena, len(r.region))}
	}
	body := r.region[place : place+bytes]
	if apart != nil && bytes >= apartBytesMin {
		switch place := apart(into[:wire.HeaderBytes], bytes); {
		case place.To != nil:
			*place.To, err = appendOut(*place.To, body)
			return into, 0, err
		case place.Read != nil:
			return into, 0, readOut(body, place.Read)
		case place.Drop:
			return into, 0, nil
		}
	}
	if need := wire.HeaderBytes + bytes; need > len(into) {
		larger := grow(need)
		if larger == nil {
			return into, bytes, ErrNoRoom
		}
		copy(larger, into[:wire.HeaderBytes])
		into = larger
	}
	_, err = appendOut(into[wire.HeaderBytes:wire.HeaderBytes], body)
	return into, bytes, err
}

// readOut reads what lies in such pages as appendOut copies from. A peer that changes them
// meanwhile may also make the reader index beyond what it has; that is its fault as well. A
// panic that has another cause goes on.
func readOut(body []byte, read func([]byte)) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		cause := recover()
		if _, fault := cause.(runtime.Error); fault {
			err = ErrFault
		} else if cause != nil {
			panic(cause)
		}
	}()
	read(body)
	return nil
}

// appendOut appends what lies in pages that the peer may have removed. The peer can punch
// holes into its region, and a machine that has no page to fill one sends SIGBUS. After an
// error it returns to as it was.
func appendOut(to, from []byte) (appended []byte, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			appended, err = to, ErrFault
		}
	}()
	return appendCached(to, from), nil
}
