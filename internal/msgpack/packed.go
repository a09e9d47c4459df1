package msgpack

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/tinylib/msgp/msgp"
)

// An Element is the type of the elements of a packed list. The numbers are those of
// spec/schema.md.
type Element uint8

// The types that a list can be packed of. The zero Element is none.
const (
	ElementBool Element = 1 + iota
	ElementInt8
	ElementInt16
	ElementInt32
	ElementInt64
	ElementUint8
	ElementUint16
	ElementUint32
	ElementUint64
	ElementFloat32
	ElementFloat64
)

var elements = [...]struct {
	name  string
	bytes int
}{
	ElementBool: {"bool", 1}, ElementInt8: {"int8", 1}, ElementInt16: {"int16", 2}, ElementInt32: {"int32", 4}, ElementInt64: {"int64", 8},
	ElementUint8: {"uint8", 1}, ElementUint16: {"uint16", 2}, ElementUint32: {"uint32", 4}, ElementUint64: {"uint64", 8},
	ElementFloat32: {"float32", 4}, ElementFloat64: {"float64", 8},
}

// String returns the name of the type in the schema.
func (e Element) String() string { return elements[e].name }

// Bytes is the size of an element.
func (e Element) Bytes() int { return elements[e].bytes }

// IsInteger reports whether an element is a whole number.
func (e Element) IsInteger() bool { return e >= ElementInt8 && e <= ElementUint64 }

// A Packed is a list that came as one block, or is to be sent as one.
type Packed struct {
	Element Element
	// Data holds the elements, little-endian.
	Data []byte
}

// Count is how many elements the list has.
func (p Packed) Count() int { return len(p.Data) / p.Element.Bytes() }

// What a packed list begins with: the head of an extension whose length has four bytes, and
// the head of the block, which is the type of the elements and the number of bytes between
// the head and the elements.
const (
	extension32     = 0xC9
	packedType      = 2
	packedHeadBytes = 2
	// packedAlignment divides the place of the first element, counted from the beginning
	// of the payload.
	packedAlignment = 8
)

// AppendPackedHead begins a packed list. The elements, which take so many bytes, are to
// follow. They are aligned if dst begins with the payload.
func AppendPackedHead(dst []byte, element Element, elementsBytes int) []byte {
	start := len(dst) + 6 + packedHeadBytes
	padding := -start & (packedAlignment - 1)
	dst = append(dst, extension32)
	dst = binary.BigEndian.AppendUint32(dst, uint32(packedHeadBytes+padding+elementsBytes))
	dst = append(dst, packedType, byte(element), byte(padding))
	return append(dst, make([]byte, padding)...)
}

// IsPacked reports whether a packed list begins at src.
func IsPacked(src []byte) bool {
	at := extensionTypeAt(src)
	return at > 0 && len(src) > at && src[at] == packedType
}

// extensionTypeAt is where the type of the extension at src stands, or 0 if there is no
// extension.
func extensionTypeAt(src []byte) int {
	if len(src) == 0 {
		return 0
	}
	switch src[0] {
	case 0xD4, 0xD5, 0xD6, 0xD7, 0xD8:
		return 1
	case 0xC7:
		return 2
	case 0xC8:
		return 3
	case extension32:
		return 5
	}
	return 0
}

// extensionBytes is the length of the extension whose type stands at src[at].
func extensionBytes(src []byte, at int) uint64 {
	switch at {
	case 1:
		return 1 << (src[0] - 0xD4)
	case 2:
		return uint64(src[1])
	case 3:
		return uint64(binary.BigEndian.Uint16(src[1:]))
	}
	return uint64(binary.BigEndian.Uint32(src[1:]))
}

// ReadPacked reads a packed list that lies inside depth lists, maps or structs. What it
// returns aliases src, at any alignment. The elements have been checked as far as their
// type does not allow every pattern of bits.
func ReadPacked(src []byte, depth int) (list Packed, rest []byte, err error) {
	// The form is looked at once: the sender may change what lies in shared memory.
	at := extensionTypeAt(src)
	if at == 0 || len(src) <= at || src[at] != packedType {
		return Packed{}, src, mismatch(src, "packed list")
	}
	if err := CheckDepth(depth); err != nil {
		return Packed{}, src, err
	}
	length, body := extensionBytes(src, at), src[at+1:]
	if length > uint64(len(body)) {
		return Packed{}, src, ErrShort
	}
	if list, err = parsePacked(body[:length]); err != nil {
		return Packed{}, src, err
	}
	return list, body[length:], nil
}

func parsePacked(body []byte) (Packed, error) {
	if len(body) < packedHeadBytes {
		return Packed{}, Error("a packed list has no head")
	}
	element, padding, data := Element(body[0]), int(body[1]), body[packedHeadBytes:]
	if element == 0 || int(element) >= len(elements) {
		return Packed{}, fmt.Errorf("a packed list has elements of type %d (%d to %d are known)", element, ElementBool, ElementFloat64)
	}
	if padding > len(data) {
		return Packed{}, fmt.Errorf("a packed list has %d bytes of padding, and %d bytes follow its head", padding, len(data))
	}
	list := Packed{Element: element, Data: data[padding:len(data):len(data)]}
	if len(list.Data)%element.Bytes() != 0 {
		return Packed{}, fmt.Errorf("a packed list has %d bytes, which are no whole number of %v", len(list.Data), element)
	}
	if element == ElementBool {
		return list, checkBools(list.Data)
	}
	return list, nil
}

func checkBools(data []byte) error {
	for i, b := range data {
		if b > 1 {
			return fmt.Errorf("element %d: %d came where bool (0 or 1) is expected", i, b)
		}
	}
	return nil
}

// AppendPlain appends the list as an array of MessagePack.
func (p Packed) AppendPlain(dst []byte) []byte {
	bytes := p.Element.Bytes()
	dst = msgp.AppendArrayHeader(dst, uint32(p.Count()))
	for data := p.Data; len(data) > 0; data = data[bytes:] {
		dst = p.appendFirst(dst, data)
	}
	return dst
}

// appendFirst appends the element at the start of data.
func (p Packed) appendFirst(dst, data []byte) []byte {
	switch p.Element {
	case ElementBool:
		return msgp.AppendBool(dst, data[0] != 0)
	case ElementFloat32:
		return msgp.AppendFloat32(dst, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	case ElementFloat64:
		return msgp.AppendFloat64(dst, math.Float64frombits(binary.LittleEndian.Uint64(data)))
	case ElementUint64:
		return msgp.AppendUint64(dst, binary.LittleEndian.Uint64(data))
	}
	return msgp.AppendInt64(dst, p.integer(data))
}

// integer returns the element at the start of data, which is an integer other than uint64.
func (p Packed) integer(data []byte) int64 {
	switch p.Element {
	case ElementInt8:
		return int64(int8(data[0]))
	case ElementUint8:
		return int64(data[0])
	case ElementInt16:
		return int64(int16(binary.LittleEndian.Uint16(data)))
	case ElementUint16:
		return int64(binary.LittleEndian.Uint16(data))
	case ElementInt32:
		return int64(int32(binary.LittleEndian.Uint32(data)))
	case ElementUint32:
		return int64(binary.LittleEndian.Uint32(data))
	}
	return int64(binary.LittleEndian.Uint64(data))
}

// IsWorthPacking reports whether a sender should send the list as a block. Short lists gain
// nothing by it. Small integers take less room in an array, and a list of them that fits a
// frame must not become too large for it; looking at each takes time, so only long lists
// are looked at.
func (p Packed) IsWorthPacking() bool {
	if len(p.Data) < wire.PackedListBytesMin {
		return false
	}
	if !p.Element.IsInteger() || p.Element.Bytes() == 1 || len(p.Data) <= wire.PackedIntegersBytes {
		return true
	}
	return len(p.Data) <= p.plainBytes()
}

// plainBytes is how many bytes the elements take in an array of MessagePack.
func (p Packed) plainBytes() (total int) {
	size := p.Element.Bytes()
	for data := p.Data; len(data) > 0; data = data[size:] {
		value := p.integer(data)
		if p.Element == ElementUint64 && value < 0 {
			value = math.MaxInt64 // it is larger, and has nine bytes as well
		}
		total += integerBytes(value)
	}
	return total
}

// integerBytes is how many bytes the shortest format of an integer has.
func integerBytes(value int64) int {
	magnitude := uint64(value)
	switch {
	case value >= -32 && value < 1<<7:
		return 1
	case value < 0:
		magnitude = uint64(^value) << 1 // the sign takes a bit
	}
	switch {
	case magnitude < 1<<8:
		return 2
	case magnitude < 1<<16:
		return 3
	case magnitude < 1<<32:
		return 5
	}
	return 9
}

// AppendPlain appends the value at src, which lies inside depth lists, maps or structs, and
// writes each packed list in it as an array. Like Skip, it uses a fixed amount of stack. A
// depth of -1 is that of a list which is not part of any value, such as the arguments of a
// call.
func AppendPlain(dst, src []byte, depth int) (out, rest []byte, err error) {
	var left [wire.NestingDepthMax + 2]int
	left[0] = 1
	for level := 0; level >= 0; {
		if left[level] == 0 {
			level--
			continue
		}
		left[level]--
		if IsPacked(src) {
			var list Packed
			if list, src, err = ReadPacked(src, depth+level); err != nil {
				return dst, src, err
			}
			dst = list.AppendPlain(dst)
			continue
		}
		inside, after, err := skipOne(src, depth+level)
		if err != nil {
			return dst, src, err
		}
		dst, src = append(dst, src[:len(src)-len(after)]...), after
		if inside > 0 {
			level++
			left[level] = inside
		}
	}
	return dst, src, nil
}

// readAnyPacked reads a packed list as the list that it stands for.
func readAnyPacked(by *Meter, src []byte, depth int) (any, []byte, error) {
	packed, rest, err := ReadPacked(src, depth)
	if err == nil {
		err = by.Take(packed.Count(), anyBytes)
	}
	if err != nil {
		return nil, src, err
	}
	list, _, err := ReadAny(packed.AppendPlain(nil), depth) // which is counted
	return list, rest, err
}
