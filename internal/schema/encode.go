package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// A description is encoded and read through a tree of map[string]any, []any, string,
// bool and numbers, so that JSON and MessagePack cannot differ.

// AppendMessagePack appends the description in the form in which a RESOLVE is answered.
func (f *Function) AppendMessagePack(dst []byte) []byte {
	return appendTreeMessagePack(dst, f.tree(true))
}

// JSON returns the description as JSON with sorted keys and no white space.
func (f *Function) JSON() []byte { return appendTreeJSON(nil, f.tree(true)) }

// tree returns the description as such a tree, without what is empty or false.
func (f *Function) tree(withTypes bool) map[string]any {
	params := make([]any, len(f.Params))
	for i, param := range f.Params {
		params[i] = map[string]any{"name": param.Name, "type": param.Type.tree()}
	}
	results := make([]any, len(f.Results))
	for i, result := range f.Results {
		results[i] = result.tree()
	}
	tree := map[string]any{"name": f.Name, "params": params, "results": results}
	for key, text := range map[string]string{"doc": f.Doc, "hash": f.Hash} {
		if text != "" {
			tree[key] = text
		}
	}
	for key, set := range map[string]bool{"idempotent": f.Idempotent, "raw": f.Raw, "variadic": f.Variadic} {
		if set {
			tree[key] = true
		}
	}
	if withTypes && len(f.Types) > 0 {
		tree["types"] = f.Types.tree()
	}
	return tree
}

func (types Types) tree() map[string]any {
	tree := make(map[string]any, len(types))
	for name, made := range types {
		fields := make([]any, len(made.Fields))
		for i, field := range made.Fields {
			fields[i] = map[string]any{"name": field.Name, "type": field.Type.tree()}
		}
		tree[name] = map[string]any{"fields": fields}
	}
	return tree
}

func (t Type) tree() any {
	switch t.Kind {
	case List, Optional:
		return map[string]any{t.Kind.String(): t.Element.tree()}
	case Map:
		return map[string]any{"map": []any{t.Key.String(), t.Element.tree()}}
	case StructRef:
		return map[string]any{"struct": t.Struct}
	}
	return t.Kind.String()
}

func sortedKeys(tree map[string]any) []string { return slices.Sorted(maps.Keys(tree)) }

func appendTreeMessagePack(dst []byte, tree any) []byte {
	switch value := tree.(type) {
	case map[string]any:
		dst = msgp.AppendMapHeader(dst, uint32(len(value)))
		for _, key := range sortedKeys(value) {
			dst = appendTreeMessagePack(msgp.AppendString(dst, key), value[key])
		}
		return dst
	case []any:
		dst = msgp.AppendArrayHeader(dst, uint32(len(value)))
		for _, element := range value {
			dst = appendTreeMessagePack(dst, element)
		}
		return dst
	case bool:
		return msgp.AppendBool(dst, value)
	}
	return msgp.AppendString(dst, tree.(string))
}

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
	return fmt.Appendf(dst, `\u%04x`, b)
}
