package wire

import (
	"encoding/binary"
	"strconv"
)

// HeaderBytes is the size of a frame's header on the wire.
const HeaderBytes = 32

// A FrameType says what a frame is.
type FrameType uint8

// The frame types of version 1.
const (
	Request    FrameType = 1
	Reply      FrameType = 2
	Error      FrameType = 3
	Cancel     FrameType = 4
	StreamData FrameType = 5
	StreamEnd  FrameType = 6
	Credit     FrameType = 7
	Ping       FrameType = 8
	Pong       FrameType = 9
	Resolve    FrameType = 10
	Drain      FrameType = 11
	Wake       FrameType = 12
	Memory     FrameType = 13
	Store      FrameType = 14
	Release    FrameType = 15
	Ask        FrameType = 16
)

var frameTypeNames = [...]string{
	Request: "REQUEST", Reply: "REPLY", Error: "ERROR", Cancel: "CANCEL",
	StreamData: "STREAM DATA", StreamEnd: "STREAM END", Credit: "CREDIT",
	Ping: "PING", Pong: "PONG", Resolve: "RESOLVE", Drain: "DRAIN",
	Wake: "WAKE", Memory: "MEMORY", Store: "STORE", Release: "RELEASE", Ask: "ASK",
}

// String returns the type's name as the specification writes it.
func (t FrameType) String() string {
	if int(t) < len(frameTypeNames) && frameTypeNames[t] != "" {
		return frameTypeNames[t]
	}
	return "type " + strconv.Itoa(int(t))
}

// Flags are the bits of a frame's flags field.
type Flags uint8

// FlagStream marks a request or reply that opens a stream.
const FlagStream Flags = 1 << 0

// A Codec says how a payload is encoded.
type Codec uint8

// The codecs of version 1.
const (
	CodecRaw         Codec = 0
	CodecMessagePack Codec = 1
	CodecJSON        Codec = 2
	CodecProtobuf    Codec = 3
	// CodecPacked is MessagePack in which lists of numbers may be blocks. A caller sends it
	// only if FeaturePackedLists was accepted.
	CodecPacked Codec = 4
)

// String returns the codec's name.
func (c Codec) String() string {
	switch c {
	case CodecRaw:
		return "raw"
	case CodecMessagePack:
		return "MessagePack"
	case CodecJSON:
		return "JSON"
	case CodecProtobuf:
		return "protobuf"
	case CodecPacked:
		return "packed MessagePack"
	}
	return "codec " + strconv.Itoa(int(c))
}

// A Header is the fixed part of a frame.
//
//	 0 u32 length: bytes after the header
//	 4 u8  type
//	 5 u8  flags
//	 6 u8  codec
//	 7 u8  number of descriptors
//	 8 u64 call id
//	16 u32 function id
//	20 u32 deadline in milliseconds, see DeadlineMs
//	24 u32 status, credit in bytes, or a request's description check
//	28 u32 extension bytes
type Header struct {
	Length         uint32
	Type           FrameType
	Flags          Flags
	Codec          Codec
	Descriptors    uint8
	CallID         uint64
	FunctionID     uint32
	Deadline       uint32
	Status         uint32
	ExtensionBytes uint32
}

// Put writes the header to the first HeaderBytes of b. It writes illegal
// headers too, so that tests can.
func (h *Header) Put(b []byte) {
	_ = b[HeaderBytes-1]
	binary.LittleEndian.PutUint32(b[0:], h.Length)
	b[4], b[5], b[6], b[7] = byte(h.Type), byte(h.Flags), byte(h.Codec), h.Descriptors
	binary.LittleEndian.PutUint64(b[8:], h.CallID)
	binary.LittleEndian.PutUint32(b[16:], h.FunctionID)
	binary.LittleEndian.PutUint32(b[20:], h.Deadline)
	binary.LittleEndian.PutUint32(b[24:], h.Status)
	binary.LittleEndian.PutUint32(b[28:], h.ExtensionBytes)
}

// Append appends the header to b.
func (h *Header) Append(b []byte) []byte {
	var space [HeaderBytes]byte
	h.Put(space[:])
	return append(b, space[:]...)
}

// ParseHeader reads a header from the first HeaderBytes of b and checks nothing.
func ParseHeader(b []byte) Header {
	_ = b[HeaderBytes-1]
	return Header{
		Length:         binary.LittleEndian.Uint32(b[0:]),
		Type:           FrameType(b[4]),
		Flags:          Flags(b[5]),
		Codec:          Codec(b[6]),
		Descriptors:    b[7],
		CallID:         binary.LittleEndian.Uint64(b[8:]),
		FunctionID:     binary.LittleEndian.Uint32(b[16:]),
		Deadline:       binary.LittleEndian.Uint32(b[20:]),
		Status:         binary.LittleEndian.Uint32(b[24:]),
		ExtensionBytes: binary.LittleEndian.Uint32(b[28:]),
	}
}

// A Frame is a header with what follows it. Extensions and Payload alias the
// bytes the frame was parsed from.
type Frame struct {
	Header
	Extensions []byte
	Payload    []byte
}

// Append appends the whole frame to b and sets the header's lengths by what
// follows.
func (f *Frame) Append(b []byte) []byte {
	f.ExtensionBytes = uint32(len(f.Extensions))
	f.Length = uint32(len(f.Extensions) + len(f.Payload))
	b = f.Header.Append(b)
	b = append(b, f.Extensions...)
	return append(b, f.Payload...)
}

// StatusField packs a code and an outcome as an ERROR's status field.
func StatusField(code, outcome uint8) uint32 {
	return uint32(code) | uint32(outcome)<<8
}

// SplitStatus unpacks a status field; valid is false when reserved bits are set.
func SplitStatus(field uint32) (code, outcome uint8, valid bool) {
	return uint8(field), uint8(field >> 8), field>>16 == 0
}
