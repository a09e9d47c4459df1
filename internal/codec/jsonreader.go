package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/msgpack"
)

// A jsonReader walks over text that json.Valid has accepted, so that every
// value and every bracket it looks for is there.
type jsonReader struct {
	text []byte
	at   int
}

func newJSONReader(text []byte) (jsonReader, error) {
	if !utf8.Valid(text) {
		return jsonReader{}, errors.New("the JSON text is not valid UTF-8")
	}
	end, ok := JSONEnd(text, 0)
	if (!ok || SkipJSONSpace(text, end) != len(text)) && !json.Valid(text) {
		var nothing json.RawMessage
		return jsonReader{}, fmt.Errorf("the JSON text is malformed: %w", json.Unmarshal(text, &nothing))
	}
	return jsonReader{text: text}, nil
}

// peek returns the first byte of the next value or the next bracket.
func (r *jsonReader) peek() byte {
	for {
		switch b := r.text[r.at]; b {
		case ' ', '\t', '\r', '\n', ',', ':':
			r.at++
		default:
			return b
		}
	}
}

// kind names the next value in the schema's words.
func (r *jsonReader) kind() string {
	switch r.peek() {
	case '"':
		return "string"
	case '[':
		return "list"
	case '{':
		return "map"
	case 't', 'f':
		return "bool"
	case 'n':
		return "nil"
	}
	return "number"
}

// bare returns the next true, false, null or number, which lies in the text.
func (r *jsonReader) bare() []byte {
	r.peek()
	start := r.at
	for r.at < len(r.text) && !endsBare(r.text[r.at]) {
		r.at++
	}
	return r.text[start:r.at]
}

// endsBare reports whether a byte may follow a value that is neither a string nor has
// brackets.
func endsBare(b byte) bool {
	switch b {
	case ' ', '\t', '\r', '\n', ',', ']', '}':
		return true
	}
	return false
}

// string returns the next value, which is a string, without its escapes. If it has none,
// what string returns lies in the text.
func (r *jsonReader) string() ([]byte, error) {
	r.peek()
	start, escaped := r.at, false
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			escaped = true
			r.at++
		}
	}
	r.at++
	if !escaped {
		return r.text[start+1 : r.at-1], nil
	}
	var text string
	if err := checkSurrogates(r.text[start:r.at]); err != nil {
		return nil, err
	}
	err := json.Unmarshal(r.text[start:r.at], &text)
	return []byte(text), err
}

// checkSurrogates refuses escapes that are half a character, for which package json would
// put U+FFFD. The text is a JSON string.
func checkSurrogates(text []byte) error {
	for at := bytes.IndexByte(text, '\\'); at >= 0 && at < len(text); {
		first := escapedUnit(text[at:])
		switch {
		case text[at] != '\\':
			at++
		case !utf16.IsSurrogate(first):
			at += 2 // what follows \u is no backslash
		case utf16.DecodeRune(first, escapedUnit(text[at+escapeBytes:])) == utf8.RuneError:
			return fmt.Errorf("the escape %s is half a character: a surrogate without the other", text[at:at+escapeBytes])
		default:
			at += 2 * escapeBytes
		}
	}
	return nil
}

const escapeBytes = len(`\u0000`)

// escapedUnit returns what the escape \u at the beginning of text stands for, or 0.
func escapedUnit(text []byte) rune {
	if len(text) < escapeBytes || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, _ := strconv.ParseUint(string(text[2:escapeBytes]), 16, 16)
	return rune(unit)
}

// list calls each for the elements of the next value.
func (r *jsonReader) list(depth int, each func(index int) error) (count int, err error) {
	if kind := r.kind(); kind != "list" {
		return 0, mismatch(kind, "list")
	}
	if err := msgpack.CheckDepth(depth); err != nil {
		return 0, err
	}
	for r.at++; r.peek() != ']'; count++ {
		if err := each(count); err != nil {
			return count, err
		}
	}
	r.at++
	return count, nil
}

// object calls each for the members of the next value, with the reader before
// the member's value.
func (r *jsonReader) object(depth int, each func(key []byte) error) (count int, err error) {
	if kind := r.kind(); kind != "map" {
		return 0, mismatch(kind, "map")
	}
	if err := msgpack.CheckDepth(depth); err != nil {
		return 0, err
	}
	for r.at++; r.peek() != '}'; count++ {
		key, err := r.string()
		if err != nil {
			return count, err
		}
		if err := each(key); err != nil {
			return count, err
		}
	}
	r.at++
	return count, nil
}

func mismatch(came, want string) error {
	return fmt.Errorf("%s came where %s is expected", came, want)
}
