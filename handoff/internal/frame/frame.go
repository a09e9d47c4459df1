// Package frame encodes and decodes what travels on a channel of spec/handoff.md.
// It does no input or output.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/internal/wire"
)

// HeaderBytes is the size of every header.
const HeaderBytes = 32

// ErrProtocol is what every breach of the format is.
var ErrProtocol = errors.New("the peer does not keep to the protocol of handoffs")

// A Type says what a frame is for.
type Type uint8

// The types of frames.
const (
	Give Type = 1 + iota
	Taken
	Refused
	Recall
	Drain
	Want
	Done
	Ping
	Pong
)

// A Kind says what is given.
type Kind uint8

// The kinds of what is given.
const (
	Connection Kind = 1 + iota
	Listener
	File
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Connection:
		return "connection"
	case Listener:
		return "listener"
	case File:
		return "file"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// A Header is the fixed part of a frame.
type Header struct {
	Length        uint32
	Type          Type
	Kind          Kind
	Reason        Reason
	ID            uint64
	PrefixBytes   uint32
	MessageBytes  uint32
	NameBytes     uint16
	LocalBytes    uint16
	RemoteBytes   uint16
	ResourceBytes uint16
}

// A Frame is a header with what follows it. Parts are nil where they are empty.
type Frame struct {
	Type     Type
	Kind     Kind
	Reason   Reason
	ID       uint64
	Name     string
	Local    string
	Remote   string
	Resource []byte
	Message  []byte
	Prefix   []byte
}

// Limits are what a receiver announced.
type Limits struct{ PrefixBytesMax, MessageBytesMax int }

// Append appends the encoded frame. Its parts must fit into their lengths:
// code that makes a frame of somebody else's words checks them with Check before.
func (f *Frame) Append(b []byte) []byte {
	length := len(f.Name) + len(f.Local) + len(f.Remote) + len(f.Resource) + len(f.Message) + len(f.Prefix)
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	b = append(b, byte(f.Type), byte(f.Kind), byte(f.Reason), 0)
	b = binary.LittleEndian.AppendUint64(b, f.ID)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Prefix)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Message)))
	for _, bytes := range []int{len(f.Name), len(f.Local), len(f.Remote), len(f.Resource)} {
		b = binary.LittleEndian.AppendUint16(b, uint16(bytes))
	}
	b = append(b, f.Name...)
	b = append(b, f.Local...)
	b = append(b, f.Remote...)
	b = append(b, f.Resource...)
	b = append(b, f.Message...)
	return append(b, f.Prefix...)
}

// Check returns an error that names the part which is too long for a receiver with
// these limits.
func (f *Frame) Check(limits Limits) error {
	return limits.check([6]int{len(f.Prefix), len(f.Message), len(f.Name), len(f.Local), len(f.Remote), len(f.Resource)})
}

// resourceBytesMax is a WSAPROTOCOL_INFOW, the largest there is.
const resourceBytesMax = 628

// ErrTooLarge is what a part is that is longer than was agreed to.
var ErrTooLarge = errors.New("too large")

// check looks at the lengths of prefix, message, name, local and remote address,
// and resource.
func (l Limits) check(lengths [6]int) error {
	names := [...]string{"prefix", "message", "name", "local address", "remote address", "resource"}
	bounds := [...]int{l.PrefixBytesMax, l.MessageBytesMax, wire.HandoffNameBytesMax,
		wire.HandoffNameBytesMax, wire.HandoffNameBytesMax, resourceBytesMax}
	for i, bytes := range lengths {
		if bytes > bounds[i] {
			return fmt.Errorf("%w: the %s has %d bytes, at most %d were agreed to", ErrTooLarge, names[i], bytes, bounds[i])
		}
	}
	return nil
}

// A use is a set of fields that a type of frame has besides its type.
type use uint16

const (
	useKind use = 1 << iota
	useReason
	useID
	useName
	useAddresses // and the resource
	useMessage
	usePrefix
)

// uses says which fields each type has; all others are 0.
var uses = [...]use{
	Give:    useKind | useID | useName | useAddresses | useMessage | usePrefix,
	Taken:   useID,
	Refused: useID | useReason | useMessage,
	Recall:  useID,
	Drain:   useMessage,
	Want:    useID | useName,
	Done:    useID | useMessage,
	Ping:    useID,
	Pong:    useID,
}

// ParseHeader decodes HeaderBytes bytes and checks them: what a type does not use
// is 0, lengths add up and keep to the limits that this side announced.
func ParseHeader(b []byte, limits Limits) (Header, error) {
	h := Header{
		Length: binary.LittleEndian.Uint32(b), Type: Type(b[4]), Kind: Kind(b[5]), Reason: Reason(b[6]),
		ID:          binary.LittleEndian.Uint64(b[8:]),
		PrefixBytes: binary.LittleEndian.Uint32(b[16:]), MessageBytes: binary.LittleEndian.Uint32(b[20:]),
		NameBytes: binary.LittleEndian.Uint16(b[24:]), LocalBytes: binary.LittleEndian.Uint16(b[26:]),
		RemoteBytes: binary.LittleEndian.Uint16(b[28:]), ResourceBytes: binary.LittleEndian.Uint16(b[30:]),
	}
	if h.Type == 0 || int(h.Type) >= len(uses) {
		return h, fmt.Errorf("%w: there is no frame of type %d", ErrProtocol, h.Type)
	}
	if b[7] != 0 {
		return h, fmt.Errorf("%w: the reserved byte of a frame of type %d is %d", ErrProtocol, h.Type, b[7])
	}
	if err := h.checkUses(); err != nil {
		return h, err
	}
	return h, h.checkLengths(limits)
}

func (h Header) checkUses() error {
	for _, field := range []struct {
		name  string
		value uint64
		use   use
	}{
		{"kind", uint64(h.Kind), useKind},
		{"reason", uint64(h.Reason), useReason},
		{"id", h.ID, useID},
		{"prefix bytes", uint64(h.PrefixBytes), usePrefix},
		{"message bytes", uint64(h.MessageBytes), useMessage},
		{"name bytes", uint64(h.NameBytes), useName},
		{"local bytes", uint64(h.LocalBytes), useAddresses},
		{"remote bytes", uint64(h.RemoteBytes), useAddresses},
		{"resource bytes", uint64(h.ResourceBytes), useAddresses},
	} {
		if field.value != 0 && uses[h.Type]&field.use == 0 {
			return fmt.Errorf("%w: a frame of type %d has no %s, this one has %d", ErrProtocol, h.Type, field.name, field.value)
		}
	}
	if h.ID == 0 && uses[h.Type]&useID != 0 {
		return fmt.Errorf("%w: the id of a frame of type %d is 0", ErrProtocol, h.Type)
	}
	if h.Type == Refused && h.Reason == 0 {
		return fmt.Errorf("%w: a refusal without a reason", ErrProtocol)
	}
	if h.Type == Give && (h.Kind < Connection || h.Kind > File) {
		return fmt.Errorf("%w: there is no kind %d to give", ErrProtocol, h.Kind)
	}
	return nil
}

func (h Header) checkLengths(limits Limits) error {
	lengths := [...]int{int(h.PrefixBytes), int(h.MessageBytes), int(h.NameBytes), int(h.LocalBytes),
		int(h.RemoteBytes), int(h.ResourceBytes)}
	if err := limits.check(lengths); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	sum := 0
	for _, bytes := range lengths {
		sum += bytes
	}
	if sum != int(h.Length) {
		return fmt.Errorf("%w: a length of %d, its parts have %d bytes", ErrProtocol, h.Length, sum)
	}
	return nil
}

// Split returns the frame of a header and the bytes that follow it, which it keeps
// as they are: they must be the frame's own.
func (h Header) Split(body []byte) Frame {
	part := func(bytes int) []byte {
		if bytes == 0 {
			return nil
		}
		taken := body[:bytes:bytes]
		body = body[bytes:]
		return taken
	}
	f := Frame{Type: h.Type, Kind: h.Kind, Reason: h.Reason, ID: h.ID}
	f.Name = string(part(int(h.NameBytes)))
	f.Local = string(part(int(h.LocalBytes)))
	f.Remote = string(part(int(h.RemoteBytes)))
	f.Resource = part(int(h.ResourceBytes))
	f.Message = part(int(h.MessageBytes))
	f.Prefix = part(int(h.PrefixBytes))
	return f
}
