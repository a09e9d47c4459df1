package wire

import (
	"encoding/binary"
	"fmt"
)

// Version is the protocol version this package speaks.
const Version = 1

// HandshakeBytes is the fixed part of a hello and of a welcome.
const HandshakeBytes = 64

// FrameBytesFloor is the least a peer may announce as its largest frame.
const FrameBytesFloor = 65536

// The first bytes of a connection, by protocol.
const (
	FirstByteHello   = 0x89
	FirstByteSimple  = 0x00
	FirstByteVarlink = '{'
)

const (
	helloMagic   = "\x89NCH\r\n\x1a\n"
	welcomeMagic = "\x89NCW\r\n\x1a\n"
)

// Feature is a set of optional parts of the protocol.
type Feature uint64

// The features of version 1.
const (
	FeatureSharedClock  Feature = 1 << 0
	FeatureStreams      Feature = 1 << 1
	FeatureDescriptors  Feature = 1 << 2
	FeatureSharedMemory Feature = 1 << 3
	FeatureDescriptions Feature = 1 << 4
	// FeatureReversed is reserved for a side that connects in order to serve. Nobody
	// accepts it yet.
	FeatureReversed Feature = 1 << 5
	// FeaturePackedLists lets a caller send requests with CodecPacked.
	FeaturePackedLists Feature = 1 << 6
	// FeatureStores lets payloads that no frame holds lie in memory files of the server's.
	FeatureStores Feature = 1 << 7
	// FeatureAsks lets a caller ask what became of calls of a connection that has ended.
	FeatureAsks Feature = 1 << 8
	// FeatureDirections lets a server tell where a function can be called directly.
	FeatureDirections Feature = 1 << 9
)

// A Hello is what a caller says first.
type Hello struct {
	VersionMin, VersionMax uint16
	Offered, Required      Feature
	ProcessID              uint32
	FrameBytesMax          uint32
	ClockNs                uint64
	StreamCreditBytes      uint32
	// ValueBytesMax is the largest payload that it accepts in a store. It travels only with
	// FeatureStores, and is 0 if nothing was said.
	ValueBytesMax uint64
	// Software names the caller's library, as "libnearcall/0.1.0".
	Software string
	// Extensions is set by ParseHello and aliases its input.
	Extensions []byte
}

// A Welcome is the server's answer. Version 0 refuses, for the reason that
// Status and Refusal give.
type Welcome struct {
	Version           uint16
	Status            uint16
	Accepted          Feature
	Instance          uint64
	ProcessID         uint32
	FrameBytesMax     uint32
	ClockNs           uint64
	StreamCreditBytes uint32
	CallsInFlightMax  uint32
	SchemaHash        uint64
	ValueBytesMax     uint64 // as in the hello
	// Key names the connection for an ASK on another one. It travels only with FeatureAsks, and
	// is zero if nothing was said.
	Key ConnectionKey
	// Load says how busy the server is, if HasLoad is set: the calls that it has for each
	// processor, in thousandths.
	Load     uint32
	HasLoad  bool
	Software string
	Refusal  string
}

// Append appends the hello to b.
func (h *Hello) Append(b []byte) []byte {
	start := len(b)
	b = append(b, helloMagic...)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint16(b, h.VersionMin)
	b = binary.LittleEndian.AppendUint16(b, h.VersionMax)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Offered))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Required))
	b = binary.LittleEndian.AppendUint32(b, h.ProcessID)
	b = binary.LittleEndian.AppendUint32(b, h.FrameBytesMax)
	b = binary.LittleEndian.AppendUint64(b, h.ClockNs)
	b = binary.LittleEndian.AppendUint32(b, h.StreamCreditBytes)
	b = append(b, make([]byte, 12)...)
	if h.Software != "" {
		b = AppendExtension(b, ExtensionSoftware, h.Software)
	}
	if h.ValueBytesMax > 0 {
		b = appendValueBytesMax(b, h.ValueBytesMax)
	}
	return setTotal(b, start)
}

// Append appends the welcome to b.
func (w *Welcome) Append(b []byte) []byte {
	start := len(b)
	b = append(b, welcomeMagic...)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint16(b, w.Version)
	b = binary.LittleEndian.AppendUint16(b, w.Status)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Accepted))
	b = binary.LittleEndian.AppendUint64(b, w.Instance)
	b = binary.LittleEndian.AppendUint32(b, w.ProcessID)
	b = binary.LittleEndian.AppendUint32(b, w.FrameBytesMax)
	b = binary.LittleEndian.AppendUint64(b, w.ClockNs)
	b = binary.LittleEndian.AppendUint32(b, w.StreamCreditBytes)
	b = binary.LittleEndian.AppendUint32(b, w.CallsInFlightMax)
	b = binary.LittleEndian.AppendUint64(b, w.SchemaHash)
	if w.Software != "" {
		b = AppendExtension(b, ExtensionSoftware, w.Software)
	}
	if w.Refusal != "" {
		b = AppendExtension(b, ExtensionRefusal, w.Refusal)
	}
	if w.ValueBytesMax > 0 {
		b = appendValueBytesMax(b, w.ValueBytesMax)
	}
	if w.Key != (ConnectionKey{}) {
		b = AppendExtension(b, ExtensionConnectionKey, string(w.Key[:]))
	}
	if w.HasLoad {
		b = AppendExtension(b, ExtensionLoad, string(binary.LittleEndian.AppendUint32(nil, w.Load)))
	}
	return setTotal(b, start)
}

func appendValueBytesMax(b []byte, bytes uint64) []byte {
	return AppendExtension(b, ExtensionValueBytesMax, string(binary.LittleEndian.AppendUint64(nil, bytes)))
}

// valueBytesMax returns what the extension says, and 0 if it is not there or has another size.
func valueBytesMax(extensions []byte) uint64 {
	if content, _ := FindExtension(extensions, ExtensionValueBytesMax); len(content) == 8 {
		return min(binary.LittleEndian.Uint64(content), ValueBytesMaxCeiling)
	}
	return 0
}

func setTotal(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start+8:], uint32(len(b)-start))
	return b
}

// handshakeTotal checks magic and length as far as they have arrived. It
// returns 0 while the handshake is not complete.
func handshakeTotal(b []byte, magic string) (int, error) {
	for i := 0; i < len(b) && i < len(magic); i++ {
		if b[i] != magic[i] {
			return 0, protocolErrorf("byte %d of the magic is 0x%02x (must be 0x%02x); is the address that of a Nearcall server?", i, b[i], magic[i])
		}
	}
	if len(b) < 12 {
		return 0, nil
	}
	total := binary.LittleEndian.Uint32(b[8:])
	if total < HandshakeBytes || total > HelloBytesMax {
		return 0, &ProtocolError{TooLarge: total > HelloBytesMax, Text: fmt.Sprintf("a handshake of %d bytes (%d to %d)", total, HandshakeBytes, HelloBytesMax)}
	}
	if len(b) < int(total) {
		return 0, nil
	}
	return int(total), CheckExtensions(b[HandshakeBytes:total])
}

// ParseHello parses the hello at the start of b and returns the bytes it took;
// 0 means that it is not complete.
func ParseHello(b []byte, h *Hello) (int, error) {
	total, err := handshakeTotal(b, helloMagic)
	if total == 0 || err != nil {
		return 0, err
	}
	*h = Hello{
		VersionMin:        binary.LittleEndian.Uint16(b[12:]),
		VersionMax:        binary.LittleEndian.Uint16(b[14:]),
		Offered:           Feature(binary.LittleEndian.Uint64(b[16:])),
		Required:          Feature(binary.LittleEndian.Uint64(b[24:])),
		ProcessID:         binary.LittleEndian.Uint32(b[32:]),
		FrameBytesMax:     binary.LittleEndian.Uint32(b[36:]),
		ClockNs:           binary.LittleEndian.Uint64(b[40:]),
		StreamCreditBytes: binary.LittleEndian.Uint32(b[48:]),
		Extensions:        b[HandshakeBytes:total:total],
	}
	software, _ := FindExtension(h.Extensions, ExtensionSoftware)
	h.Software, h.ValueBytesMax = string(software), valueBytesMax(h.Extensions)
	if h.FrameBytesMax < FrameBytesFloor {
		return 0, protocolErrorf("the hello's largest frame is %d (at least %d)", h.FrameBytesMax, FrameBytesFloor)
	}
	return total, nil
}

// ParseWelcome parses the welcome at the start of b and returns the bytes it
// took; 0 means that it is not complete.
func ParseWelcome(b []byte, w *Welcome) (int, error) {
	total, err := handshakeTotal(b, welcomeMagic)
	if total == 0 || err != nil {
		return 0, err
	}
	*w = Welcome{
		Version:           binary.LittleEndian.Uint16(b[12:]),
		Status:            binary.LittleEndian.Uint16(b[14:]),
		Accepted:          Feature(binary.LittleEndian.Uint64(b[16:])),
		Instance:          binary.LittleEndian.Uint64(b[24:]),
		ProcessID:         binary.LittleEndian.Uint32(b[32:]),
		FrameBytesMax:     binary.LittleEndian.Uint32(b[36:]),
		ClockNs:           binary.LittleEndian.Uint64(b[40:]),
		StreamCreditBytes: binary.LittleEndian.Uint32(b[48:]),
		CallsInFlightMax:  binary.LittleEndian.Uint32(b[52:]),
		SchemaHash:        binary.LittleEndian.Uint64(b[56:]),
	}
	extensions := b[HandshakeBytes:total]
	software, _ := FindExtension(extensions, ExtensionSoftware)
	refusal, _ := FindExtension(extensions, ExtensionRefusal)
	w.Software, w.Refusal, w.ValueBytesMax = string(software), string(refusal), valueBytesMax(extensions)
	w.Key = connectionKey(extensions)
	if load, _ := FindExtension(extensions, ExtensionLoad); len(load) == 4 {
		w.Load, w.HasLoad = binary.LittleEndian.Uint32(load), true
	}
	return total, checkWelcome(w, extensions)
}

func checkWelcome(w *Welcome, extensions []byte) error {
	if t, found := UnknownMandatory(extensions); found {
		return protocolErrorf("the welcome has extension 0x%04x, which this version does not understand", uint16(t))
	}
	if w.Version == 0 {
		return nil
	}
	switch {
	case w.Version != Version:
		return protocolErrorf("the welcome chose version %d (offered: %d)", w.Version, Version)
	case w.FrameBytesMax < FrameBytesFloor:
		return protocolErrorf("the welcome's largest frame is %d (at least %d)", w.FrameBytesMax, FrameBytesFloor)
	case w.CallsInFlightMax == 0:
		return protocolErrorf("the welcome allows no call in flight")
	}
	return nil
}
