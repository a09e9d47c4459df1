package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/msgpack"
)

// A jsonReader walks over text that json.Valid has accepted, so that every
// value and every bracket it looks for is there.
type jsonReader struct {
	text []byte
	at   int
}

func newJSONReader(text []byte) (*jsonReader, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the JSON text is not valid UTF-8")
	}
	if !json.Valid(text) {
		var nothing json.RawMessage
		return nil, fmt.Errorf("the JSON text is malformed: %w", json.Unmarshal(text, &nothing))
	}
	return &jsonReader{text: text}, nil
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

// bare returns the next true, false, null or number.
func (r *jsonReader) bare() string {
	r.peek()
	end := bytes.IndexAny(r.text[r.at:], " \t\r\n,]}")
	if end < 0 {
		end = len(r.text) - r.at
	}
	token := r.text[r.at : r.at+end]
	r.at += end
	return string(token)
}

// string returns the next value, which is a string, without its escapes.
func (r *jsonReader) string() (string, error) {
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
		return string(r.text[start+1 : r.at-1]), nil
	}
	var text string
	err := json.Unmarshal(r.text[start:r.at], &text)
	return text, err
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
func (r *jsonReader) object(depth int, each func(key string) error) (count int, err error) {
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
