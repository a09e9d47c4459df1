package wire

import "encoding/binary"

// MemoryDescriptors come with every MEMORY: the caller region, then the server
// region.
const MemoryDescriptors = 2

const memoryOfferBytes = 16

// A MemoryOffer is the payload of MEMORY: the geometry of the regions, and how
// long waiting by spinning pays.
type MemoryOffer struct {
	Slots      uint32
	Marks      uint32
	ArenaBytes uint32
	SpinUs     uint32
}

// Append appends the payload to b.
func (o *MemoryOffer) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, o.Slots)
	b = binary.LittleEndian.AppendUint32(b, o.Marks)
	b = binary.LittleEndian.AppendUint32(b, o.ArenaBytes)
	return binary.LittleEndian.AppendUint32(b, o.SpinUs)
}

// ParseMemoryOffer reads the payload of a MEMORY that the parser let through. It
// checks nothing.
func ParseMemoryOffer(payload []byte) MemoryOffer {
	_ = payload[memoryOfferBytes-1]
	return MemoryOffer{
		Slots:      binary.LittleEndian.Uint32(payload[0:]),
		Marks:      binary.LittleEndian.Uint32(payload[4:]),
		ArenaBytes: binary.LittleEndian.Uint32(payload[8:]),
		SpinUs:     binary.LittleEndian.Uint32(payload[12:]),
	}
}
