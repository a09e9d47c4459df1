package wire

import "encoding/binary"

const extensionHeaderBytes = 4

// An ExtensionType names what an extension holds.
type ExtensionType uint16

// MustUnderstand is the bit of types that a receiver may not skip.
const MustUnderstand ExtensionType = 0x8000

// The extension types of version 1.
const (
	ExtensionSoftware       ExtensionType = 1
	ExtensionRefusal        ExtensionType = 2
	ExtensionValueBytesMax  ExtensionType = 3
	ExtensionConnectionKey  ExtensionType = 4
	ExtensionLoad           ExtensionType = 5
	ExtensionTraceParent    ExtensionType = 16
	ExtensionIdempotencyKey ExtensionType = 17
	ExtensionMetadata       ExtensionType = 18
	ExtensionDirection      ExtensionType = 19
	ExtensionFunctionName   ExtensionType = 0x8001
	// ExtensionStored says where the payload of a request or reply lies.
	ExtensionStored ExtensionType = 0x8002
)

// AppendExtension appends one extension. Preconditions: content is shorter
// than 64 KiB.
func AppendExtension(b []byte, t ExtensionType, content string) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(t))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(content)))
	return append(b, content...)
}

// NextExtension splits the first extension off b. Preconditions: b is not
// empty and was accepted by CheckExtensions.
func NextExtension(b []byte) (t ExtensionType, content, rest []byte) {
	t = ExtensionType(binary.LittleEndian.Uint16(b))
	end := extensionHeaderBytes + int(binary.LittleEndian.Uint16(b[2:]))
	return t, b[extensionHeaderBytes:end:end], b[end:]
}

// CheckExtensions reports whether b is filled exactly by extensions.
func CheckExtensions(b []byte) error {
	for len(b) > 0 {
		if len(b) < extensionHeaderBytes {
			return protocolErrorf("%d bytes after the last extension", len(b))
		}
		end := extensionHeaderBytes + int(binary.LittleEndian.Uint16(b[2:]))
		if end > len(b) {
			return protocolErrorf("an extension of %d bytes where %d are left", end, len(b))
		}
		b = b[end:]
	}
	return nil
}

// FindExtension returns the content of the first extension of type t.
// Preconditions: b was accepted by CheckExtensions.
func FindExtension(b []byte, t ExtensionType) (content []byte, found bool) {
	for len(b) > 0 {
		var candidate ExtensionType
		candidate, content, b = NextExtension(b)
		if candidate == t {
			return content, true
		}
	}
	return nil, false
}

// WithoutExtension returns a copy of b without the extensions of type t, which others can be
// appended to. Preconditions: b was accepted by CheckExtensions.
func WithoutExtension(b []byte, t ExtensionType) []byte {
	kept := make([]byte, 0, 2*len(b))
	for len(b) > 0 {
		candidate, _, rest := NextExtension(b)
		if candidate != t {
			kept = append(kept, b[:len(b)-len(rest)]...)
		}
		b = rest
	}
	return kept
}

// AppendEndToEnd appends those extensions of from that travel from the caller to the function or
// back, however many connections are between them: trace context, idempotency key and metadata.
// All others concern the two ends of one connection. Preconditions: from was accepted by
// CheckExtensions.
func AppendEndToEnd(b, from []byte) []byte {
	for len(from) > 0 {
		t, _, rest := NextExtension(from)
		switch t {
		case ExtensionTraceParent, ExtensionIdempotencyKey, ExtensionMetadata:
			b = append(b, from[:len(from)-len(rest)]...)
		}
		from = rest
	}
	return b
}

// UnknownMandatory returns the first extension type that must be understood
// and is none of known.
func UnknownMandatory(b []byte, known ...ExtensionType) (ExtensionType, bool) {
	for len(b) > 0 {
		var t ExtensionType
		t, _, b = NextExtension(b)
		if t&MustUnderstand != 0 && !contains(known, t) {
			return t, true
		}
	}
	return 0, false
}

func contains(types []ExtensionType, t ExtensionType) bool {
	for _, candidate := range types {
		if candidate == t {
			return true
		}
	}
	return false
}
