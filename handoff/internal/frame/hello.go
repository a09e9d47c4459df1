package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/nearcall/nearcall/internal/wire"
)

// Sizes of a hello: without and with the longest text.
const (
	HelloBytes    = 40
	HelloBytesMax = wire.HelloBytesMax
)

// Version is the only one there is.
const Version = 1

// magic shows a channel that translates text, as the hello of calls does.
const magic = "\x8aNCP\r\n\x1a\n"

// Takes is what a side takes.
type Takes uint32

// The bits of Takes.
const (
	TakesConnections Takes = 1 << iota
	TakesListeners
	TakesFiles
	TakesRequests
)

// TakesKind returns the bit of a kind.
func TakesKind(k Kind) Takes { return 1 << (k - Connection) }

// A Hello is how each side begins.
type Hello struct {
	Lowest, Highest uint16 // versions; an answer has the chosen one twice, 0 refuses
	Process         uint32
	Takes           Takes
	Window          uint32
	PrefixBytesMax  uint32
	MessageBytesMax uint32
	Refusal         string
}

// Append appends the encoded hello; a refusal is cut to what fits.
func (h *Hello) Append(b []byte) []byte {
	refusal := h.Refusal[:min(len(h.Refusal), HelloBytesMax-HelloBytes)]
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(HelloBytes+len(refusal)))
	b = binary.LittleEndian.AppendUint16(b, h.Lowest)
	b = binary.LittleEndian.AppendUint16(b, h.Highest)
	for _, field := range []uint32{h.Process, uint32(h.Takes), h.Window, h.PrefixBytesMax, h.MessageBytesMax, 0} {
		b = binary.LittleEndian.AppendUint32(b, field)
	}
	return append(b, refusal...)
}

// BeginsHello reports whether bytes, at least one, can be the beginning of a hello.
func BeginsHello(b []byte) bool { return b[0] == magic[0] }

// HelloTotal returns how many bytes the hello has that begins with these
// HelloBytes.
func HelloTotal(b []byte) (int, error) {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return 0, fmt.Errorf("%w: it does not begin as a handoff does, but with % x", ErrProtocol, b[:len(magic)])
	}
	total := binary.LittleEndian.Uint32(b[8:])
	if total < HelloBytes || total > HelloBytesMax {
		return 0, fmt.Errorf("%w: a hello of %d bytes; it has %d to %d", ErrProtocol, total, HelloBytes, HelloBytesMax)
	}
	return int(total), nil
}

// ParseHello decodes a hello whose bytes are all there.
func ParseHello(b []byte) Hello {
	return Hello{
		Lowest: binary.LittleEndian.Uint16(b[12:]), Highest: binary.LittleEndian.Uint16(b[14:]),
		Process:         binary.LittleEndian.Uint32(b[16:]),
		Takes:           Takes(binary.LittleEndian.Uint32(b[20:])),
		Window:          binary.LittleEndian.Uint32(b[24:]),
		PrefixBytesMax:  binary.LittleEndian.Uint32(b[28:]),
		MessageBytesMax: binary.LittleEndian.Uint32(b[32:]),
		Refusal:         string(b[HelloBytes:]),
	}
}
