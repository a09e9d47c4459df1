package sharedmemory

import (
	"fmt"

	"github.com/nearcall/nearcall/internal/wire"
)

// The positions of everything in a region, in bytes. Lines that different sides poll
// are 128 bytes apart, because processors fetch cache lines in pairs.
const (
	sleepsOffset = 0
	sentOffset   = 8
	cpuOffset    = 16
	takenOffset  = 128
	headBytes    = 4096
	markBytes    = 8

	slotBytes       = 128
	sequenceOffset  = 0
	placeOffset     = 4
	headerOffset    = 8
	bodyOffset      = headerOffset + wire.HeaderBytes
	inlineBytesMax  = slotBytes - bodyOffset
	lineBytes       = 64
	firstLineBody   = lineBytes - bodyOffset
	arenaAlignment  = 64
	pageBytes       = 4096
	slotsMin        = pageBytes / slotBytes // so that the arena begins at a page
	slotsMax        = 4096
	marksMin        = pageBytes / markBytes
	marksMax        = 65536
	arenaBytesMax   = wire.SharedMemoryArenaBytesCeiling
	arenaGrowth     = 64 << 10
	callIDShift     = 2
	markRaisedState = 1<<callIDShift - 1
)

// A Geometry says how large the parts of a connection's regions are.
type Geometry struct {
	Slots      int // a power of two, in each direction
	Marks      int // a power of two
	ArenaBytes int // size in each direction; 0 if there are no arenas
}

// GeometryOf returns the geometry that a MEMORY announces, or an error if no region can
// be like that.
func GeometryOf(offer wire.MemoryOffer) (Geometry, error) {
	switch {
	case offer.Slots < slotsMin || offer.Slots > slotsMax || offer.Slots&(offer.Slots-1) != 0:
		return Geometry{}, fmt.Errorf("nearcall: shared memory with %d slots (a power of two from %d to %d)", offer.Slots, slotsMin, slotsMax)
	case offer.Marks < marksMin || offer.Marks > marksMax || offer.Marks&(offer.Marks-1) != 0:
		return Geometry{}, fmt.Errorf("nearcall: shared memory with %d marks (a power of two from %d to %d)", offer.Marks, marksMin, marksMax)
	case offer.ArenaBytes > arenaBytesMax || offer.ArenaBytes%pageBytes != 0:
		return Geometry{}, fmt.Errorf("nearcall: shared memory with arenas of %d bytes (a multiple of %d up to %d)", offer.ArenaBytes, pageBytes, arenaBytesMax)
	}
	return Geometry{Slots: int(offer.Slots), Marks: int(offer.Marks), ArenaBytes: int(offer.ArenaBytes)}, nil
}

// Offer returns the payload of the MEMORY for these regions.
func (g Geometry) Offer(spinUs int) wire.MemoryOffer {
	return wire.MemoryOffer{Slots: uint32(g.Slots), Marks: uint32(g.Marks), ArenaBytes: uint32(g.ArenaBytes), SpinUs: uint32(spinUs)}
}

// Geometry returns how large the parts are.
func (r *Regions) Geometry() Geometry { return r.geometry }

// Bytes returns the size of both regions together.
func (g Geometry) Bytes() int64 { return int64(g.callerRegion().bytes + g.serverRegion().bytes) }

// A layout is the geometry of one region, from the outside in.
type layout struct {
	slots, arena, bytes int // offsets; bytes is the end
}

func (g Geometry) callerRegion() layout { return g.layout(headBytes) }

func (g Geometry) serverRegion() layout { return g.layout(headBytes + g.Marks*markBytes) }

func (g Geometry) layout(slots int) layout {
	arena := slots + g.Slots*slotBytes
	return layout{slots: slots, arena: arena, bytes: arena + g.ArenaBytes}
}
