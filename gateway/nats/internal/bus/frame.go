package bus

import (
	"encoding/binary"
	"fmt"
)

// A kind says what a message is.
type kind uint8

// These are the kinds of messages.
const (
	kindOpen kind = 1 + iota
	kindOpened
	kindData
	kindCredit
	kindEnd
	kindReset
	kindProbe
	kindProbed
)

const (
	version     = 1
	headerBytes = 24
	// reasonBytesMax bounds the text of a RESET, and nameBytesMax each name in an OPEN.
	reasonBytesMax = 512
	nameBytesMax   = 255
)

// noEnd stands in a RESET for an own stream that did not end regularly.
const noEnd = ^uint64(0)

// A header is the beginning of every message. spec/bus.md says what the numbers mean for each
// kind.
type header struct {
	kind   kind
	sentMs uint32 // of the sender's clock
	offset uint64
	room   uint64
}

// append appends the header.
func (h *header) append(b []byte) []byte {
	b = append(b, version, byte(h.kind), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, h.sentMs)
	b = binary.LittleEndian.AppendUint64(b, h.offset)
	return binary.LittleEndian.AppendUint64(b, h.room)
}

// parse splits a message into header and payload, which aliases it.
func parse(message []byte) (h header, payload []byte, err error) {
	switch {
	case len(message) < headerBytes:
		return h, nil, fmt.Errorf("a message of %d bytes", len(message))
	case message[0] != version:
		return h, nil, fmt.Errorf("a message of version %d", message[0])
	case message[1] < byte(kindOpen) || message[1] > byte(kindProbed) || message[2] != 0 || message[3] != 0:
		return h, nil, fmt.Errorf("a message of kind %d", message[1])
	}
	h = header{
		kind:   kind(message[1]),
		sentMs: binary.LittleEndian.Uint32(message[4:]),
		offset: binary.LittleEndian.Uint64(message[8:]),
		room:   binary.LittleEndian.Uint64(message[16:]),
	}
	payload = message[headerBytes:]
	bearsNothing := h.kind != kindOpen && h.kind != kindData && h.kind != kindReset
	if bearsNothing && len(payload) > 0 || h.kind == kindData && len(payload) == 0 {
		return h, nil, fmt.Errorf("a message of kind %d with %d bytes behind its header", h.kind, len(payload))
	}
	return h, payload, nil
}

// An opening is the payload of an OPEN.
type opening struct {
	server  string // the one that is wanted
	gateway string // the name of the one that asks, for logs
}

func (o opening) append(b []byte) []byte {
	b = append(append(b, byte(len(o.server))), o.server...)
	return append(append(b, byte(len(o.gateway))), o.gateway...)
}

// parseOpening reads the payload of an OPEN. Bytes that follow are for later versions.
func parseOpening(b []byte) (o opening, err error) {
	for _, name := range []*string{&o.server, &o.gateway} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return opening{}, fmt.Errorf("an OPEN with an incomplete name")
		}
		end := 1 + int(b[0])
		*name, b = string(b[1:end]), b[end:]
	}
	return o, nil
}
