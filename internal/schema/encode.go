package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// describedBytes is about how many bytes a description has.
const describedBytes = 384

// AppendMessagePack appends the description in the form in which a RESOLVE is answered.
func (f *Function) AppendMessagePack(dst []byte) []byte {
	w := writer{out: slices.Grow(dst, describedBytes), binary: true}
	w.function(f, parts{doc: true, hash: true, types: true})
	return w.out
}

// JSON returns the description as JSON with sorted keys and no white space.
func (f *Function) JSON() []byte {
	var w writer
	w.function(f, parts{doc: true, hash: true, types: true})
	return w.out
}

// What is read becomes a tree of map[string]any, []any, string, bool and numbers, in which
// there may be members that this version does not know.

func sortedKeys(tree map[string]any) []string { return slices.Sorted(maps.Keys(tree)) }

// appendTreeJSON writes what RFC 8785 calls canonical JSON, as far as the
// values of a schema go: sorted keys, no white space, the fewest escapes.
func appendTreeJSON(dst []byte, tree any) []byte {
	switch value := tree.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for i, key := range sortedKeys(value) {
			dst = append(AppendJSONText(appendComma(dst, i), key), ':')
			dst = appendTreeJSON(dst, value[key])
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for i, element := range value {
			dst = appendTreeJSON(appendComma(dst, i), element)
		}
		return append(dst, ']')
	case string:
		return AppendJSONText(dst, value)
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, value)
	case json.Number:
		return append(dst, value...)
	}
	return fmt.Append(dst, tree)
}

func appendComma(dst []byte, index int) []byte {
	if index > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// AppendJSONText appends a JSON string. It escapes only what JSON demands, so
// that any language arrives at the same bytes and so at the same hash. The text
// must be valid UTF-8.
func AppendJSONText[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	written := 0
	for i := range len(text) {
		if b := text[i]; b < ' ' || b == '"' || b == '\\' {
			dst = appendEscaped(append(dst, text[written:i]...), b)
			written = i + 1
		}
	}
	return append(append(dst, text[written:]...), '"')
}

func appendEscaped(dst []byte, b byte) []byte {
	if short := strings.IndexByte("\"\\\b\f\n\r\t", b); short >= 0 {
		return append(dst, '\\', `"\bfnrt`[short])
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&0xf])
}
