package wire

import (
	"bytes"
	"fmt"
)

// CheckMetadata reports why a pair cannot travel. A key has lower-case letters, digits and
// any of "-_." between them, so that it is the same in every protocol that passes it on; a
// value is any bytes. What all pairs of a frame take together is bounded by limit
// extension_bytes_max.
func CheckMetadata(key string, value string) error {
	if key == "" {
		return fmt.Errorf("a metadata key is empty")
	}
	for i := range len(key) {
		if !metadataKeyByte(key[i]) {
			return fmt.Errorf("metadata key %.80q has %q: keys are lower-case letters, digits, and any of \"-_.\"", key, key[i])
		}
	}
	if bytesOf := extensionHeaderBytes + len(key) + 1 + len(value); bytesOf > ExtensionBytesMax {
		return fmt.Errorf("metadata %.80q takes %d bytes (at most %d, limit extension_bytes_max, which is fixed)", key, bytesOf, ExtensionBytesMax)
	}
	return nil
}

func metadataKeyByte(b byte) bool {
	return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.'
}

// AppendMetadata appends one pair. Preconditions: CheckMetadata accepts it.
func AppendMetadata(b []byte, key, value string) []byte {
	return AppendExtension(b, ExtensionMetadata, key+"\x00"+value)
}

// SplitMetadata splits the content of an extension of type ExtensionMetadata; found is
// false for one that is no pair.
func SplitMetadata(content []byte) (key, value string, found bool) {
	before, after, found := bytes.Cut(content, []byte{0})
	return string(before), string(after), found
}

// TraceParentBytes is the length of a W3C trace parent of version 00, the only one there is.
const TraceParentBytes = 55

// CheckTraceParent reports why a text is no trace parent as W3C Trace Context writes it:
// two, thirty-two, sixteen and two hexadecimal digits in lower case, with hyphens between.
func CheckTraceParent(text string) error {
	if len(text) != TraceParentBytes {
		return fmt.Errorf("trace parent %.80q has %d bytes (%d are expected, as in 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01)", text, len(text), TraceParentBytes)
	}
	for i := range len(text) {
		hyphen := i == 2 || i == 35 || i == 52
		if hyphen != (text[i] == '-') || !hyphen && !lowerHexadecimal(text[i]) {
			return fmt.Errorf("trace parent %q has %q at position %d: see W3C Trace Context", text, text[i], i+1)
		}
	}
	return nil
}

func lowerHexadecimal(b byte) bool { return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' }

// Metadata returns all pairs of a frame's extensions, nil when there are none.
// Preconditions: CheckExtensions accepts them.
func Metadata(extensions []byte) map[string][]string {
	var pairs map[string][]string
	for len(extensions) > 0 {
		var kind ExtensionType
		var content []byte
		kind, content, extensions = NextExtension(extensions)
		if kind == ExtensionMetadata {
			pairs = AddMetadata(pairs, content)
		}
	}
	return pairs
}

// AddMetadata adds the content of an extension of type ExtensionMetadata, unless it is no pair,
// to pairs, which may be nil.
func AddMetadata(pairs map[string][]string, content []byte) map[string][]string {
	key, value, found := SplitMetadata(content)
	if !found {
		return pairs
	}
	if pairs == nil {
		pairs = make(map[string][]string)
	}
	pairs[key] = append(pairs[key], value)
	return pairs
}
