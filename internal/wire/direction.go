package wire

import (
	"encoding/binary"
	"strings"
	"time"
)

const directionMsBytes = 4

// A Direction says where a function can be called directly.
type Direction struct {
	// Address is where, or empty if calls stay with the server that says so.
	Address string
	// Valid is for how long that holds; then a caller asks again. 0 means that nothing holds,
	// also of what was said before.
	Valid time.Duration
}

// AppendDirection appends the extension of a reply. Preconditions: the address has at most
// DirectionBytesMax bytes, and Valid is at most DirectionMsMax.
func AppendDirection(b []byte, d Direction) []byte {
	content := binary.LittleEndian.AppendUint32(nil, uint32(d.Valid/time.Millisecond))
	return AppendExtension(b, ExtensionDirection, string(append(content, d.Address...)))
}

// FindDirection returns the direction in the extensions of a reply. It is a hint, so one that is not
// well formed counts as none. Preconditions: extensions was accepted by CheckExtensions.
func FindDirection(extensions []byte) (d Direction, found bool) {
	content, found := FindExtension(extensions, ExtensionDirection)
	if !found || len(content) < directionMsBytes || len(content) > directionMsBytes+DirectionBytesMax {
		return d, false
	}
	d.Valid = min(time.Duration(binary.LittleEndian.Uint32(content)), DirectionMsMax) * time.Millisecond
	d.Address = string(content[directionMsBytes:])
	return d, !strings.Contains(d.Address, "\x00")
}
