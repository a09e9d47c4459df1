package codec

import (
	"bytes"
	"slices"

	"github.com/nearcall/nearcall/internal/descriptors"
	"github.com/nearcall/nearcall/internal/memory"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/tinylib/msgp/msgp"
)

// A Beside is what goes beside the bytes of one payload. It is used by one goroutine at a
// time. A nil one has nothing and takes nothing.
type Beside struct {
	// Files holds the files of the call, or is nil if there are none.
	Files *descriptors.Table

	// Gathers leaves long []byte and packed lists where they are when values are encoded:
	// Pieces says where. So they are copied once, to where they are sent from.
	Gathers bool
	Pieces  []Piece

	// Blocks is set when a packed list is encoded as a block.
	Blocks bool

	// KeptBytesMin is the size from which on a packed list, and a []byte inside a list, map
	// or struct or as a result, points into the bytes that it is decoded from, which then
	// belong to the value; 0 means never. Kept reports whether that was so.
	KeptBytesMin int
	Kept         bool

	// Meter counts the memory that decoded values take, if it is not nil.
	Meter *msgpack.Meter

	// BytesMax bounds what is encoded, if that may be more than a frame holds.
	BytesMax int

	// Reuses lets packed lists, and []byte in fields of structs, be decoded into the memory
	// that they have, if it is large enough.
	Reuses bool
}

// A Piece is a part of a payload that was not copied: Data belongs before the byte At of
// what was encoded. It must not change until the payload has been sent.
type Piece struct {
	At   int
	Data []byte
}

const (
	// pieceBytesMin is the size from which on one more part of a message costs less than
	// copying.
	pieceBytesMin = 16 << 10
	// piecesMax bounds the parts of a message, of which the kernel takes 1024 at once.
	piecesMax = 128
)

// Keep lets values keep the payload that they are decoded from, which nobody else may use
// any more if Kept is set afterwards. A value keeps it if it is most of the payload, so
// that little is kept in vain.
func (b *Beside) Keep(payloadBytes int) { b.KeptBytesMin = payloadBytes/2 + 1 }

// Borrow makes every []byte point into the payload that it is decoded from.
func (b *Beside) Borrow() { b.KeptBytesMin = 1 }

// Drop forgets the pieces.
func (b *Beside) Drop() {
	clear(b.Pieces)
	b.Pieces = b.Pieces[:0]
}

// PieceBytes returns how many bytes the pieces have.
func (b *Beside) PieceBytes() (bytes int) {
	for i := range b.Pieces {
		bytes += len(b.Pieces[i].Data)
	}
	return bytes
}

// AppendParts appends the parts of a payload in their order: encoded, with the pieces where
// they belong.
func (b *Beside) AppendParts(parts [][]byte, encoded []byte) [][]byte {
	from := 0
	for i := range b.Pieces {
		piece := &b.Pieces[i]
		parts = append(parts, encoded[from:piece.At], piece.Data)
		from = piece.At
	}
	return append(parts, encoded[from:])
}

func (b *Beside) files() *descriptors.Table {
	if b == nil {
		return nil
	}
	return b.Files
}

// Release says that what values hold of the files is theirs from now on.
func (b *Beside) Release() { b.files().Release() }

// count returns the number of pieces, and cut takes back those that were added since.
func (b *Beside) count() int {
	if b == nil {
		return 0
	}
	return len(b.Pieces)
}

func (b *Beside) cut(count int) {
	if b != nil {
		b.Pieces = b.Pieces[:count]
	}
}

func (b *Beside) appendBytes(dst, data []byte) []byte {
	if !b.gathers(data) {
		return msgp.AppendBytes(dst, data)
	}
	dst = msgp.AppendBytesHeader(dst, uint32(len(data)))
	b.Pieces = append(b.Pieces, Piece{len(dst), data})
	return dst
}

// appendBlock appends the elements of a packed list, whose head has been appended.
func (b *Beside) appendBlock(dst, elements []byte) []byte {
	if b != nil {
		b.Blocks = true
	}
	if !b.gathers(elements) {
		return append(dst, elements...)
	}
	b.Pieces = append(b.Pieces, Piece{len(dst), elements})
	return dst
}

func (b *Beside) gathers(data []byte) bool {
	return b != nil && b.Gathers && len(data) >= pieceBytesMin && len(b.Pieces) < piecesMax
}

// MeterOf returns the Meter, or nil if there is none.
func (b *Beside) MeterOf() *msgpack.Meter {
	if b == nil {
		return nil
	}
	return b.Meter
}

func (b *Beside) bytesMax() int {
	if b == nil {
		return 0
	}
	return b.BytesMax
}

func (b *Beside) reuses() bool { return b != nil && b.Reuses }

// readBytesInto reads into the memory of former, if that is to be used and large enough.
func (b *Beside) readBytesInto(former, src []byte) ([]byte, []byte, error) {
	if !b.reuses() || cap(former) == 0 {
		return b.readBytes(src)
	}
	data, rest, err := msgpack.ReadBytes(src)
	if err != nil || len(data) > cap(former) {
		return b.readBytes(src)
	}
	return append(former[:0], data...), rest, nil
}

// elements returns the elements of a packed list as a slice may own them: in the memory that
// the slice at m has, in the payload, or as a copy.
func (b *Beside) elements(m memory.Memory, data []byte, elementBytes int) []byte {
	if b.reuses() {
		if room := m.Room(elementBytes); len(data) <= cap(room) {
			return append(room[:0], data...)
		}
	}
	if b != nil && b.KeptBytesMin > 0 && len(data) >= b.KeptBytesMin && memory.Aligned(data, elementBytes) {
		b.Kept = true
		return data
	}
	return slices.Clone(data)
}

func (b *Beside) readBytes(src []byte) ([]byte, []byte, error) {
	data, rest, err := msgpack.ReadBytes(src)
	if b != nil && b.KeptBytesMin > 0 && len(data) >= b.KeptBytesMin {
		b.Kept = true
		return data, rest, err
	}
	return bytes.Clone(data), rest, err
}
