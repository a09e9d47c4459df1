package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/codec"
)

// A simpleRequest is a request of the simple protocol.
type simpleRequest struct {
	function  []byte
	arguments []byte
	timeoutMs float64
	// description is the beginning of the hash of the function's description.
	description string

	hasTimeout, hasDescription bool
}

// noArguments stand for arguments that are left out.
var noArguments = []byte("[]")

// parseSimpleRequest reads an object whose members have exactly these names and occur
// once. Package json alone would accept "F" for "f", and the last of two.
func parseSimpleRequest(message []byte) (simpleRequest, error) {
	if !utf8.Valid(message) {
		return simpleRequest{}, errors.New("it is not UTF-8")
	}
	var r simpleRequest
	if r.parsePlain(message) {
		if r.arguments == nil {
			r.arguments = noArguments
		}
		return r, nil
	}
	return parseUnusualRequest(message)
}

// parseUnusualRequest reads any request, and says what is wrong with a message that is
// none. It copies nothing of the message but what a member of its own is: whoever sends
// much that means nothing takes no memory by it.
func parseUnusualRequest(message []byte) (simpleRequest, error) {
	at := codec.SkipJSONSpace(message, 0)
	if at == len(message) || message[at] != '{' {
		return simpleRequest{}, errors.New("it is not an object")
	}
	if !json.Valid(message) {
		return simpleRequest{}, json.Unmarshal(message, &struct{}{})
	}
	var m simpleMembers
	if err := m.read(message[at+1:]); err != nil {
		return simpleRequest{}, err
	}
	if m.function == "" {
		return simpleRequest{}, errors.New(`"f" is missing`)
	}
	return m.request(), nil
}

// simpleMembers are those of a request as package json reads them.
type simpleMembers struct {
	function    string
	arguments   json.RawMessage
	timeoutMs   *float64
	description *string
}

func (m *simpleMembers) request() simpleRequest {
	r := simpleRequest{function: []byte(m.function), arguments: m.arguments}
	if len(r.arguments) == 0 {
		r.arguments = noArguments
	}
	if m.timeoutMs != nil {
		r.timeoutMs, r.hasTimeout = *m.timeoutMs, true
	}
	if m.description != nil {
		r.description, r.hasDescription = *m.description, true
	}
	return r
}

// read reads the members of an object that is valid JSON, of which text is what follows
// the opening bracket.
func (m *simpleMembers) read(text []byte) error {
	seen := make(map[string]bool, 4)
	for at := codec.SkipJSONSpace(text, 0); text[at] != '}'; {
		end := validJSONEnd(text, at)
		name := memberName(text[at:end])
		at = codec.SkipJSONSpace(text, codec.SkipJSONSpace(text, end)+len(":"))
		end = validJSONEnd(text, at)
		if err := m.set(name, text[at:end], seen); err != nil {
			return err
		}
		if at = codec.SkipJSONSpace(text, end); text[at] == ',' {
			at = codec.SkipJSONSpace(text, at+1)
		}
	}
	return nil
}

// set reads the member of that name, unless it is none of a request's.
func (m *simpleMembers) set(name string, value []byte, seen map[string]bool) error {
	into, known := map[string]any{"f": &m.function, "a": &m.arguments, "t": &m.timeoutMs, "d": &m.description}[name]
	if !known {
		return nil
	}
	if seen[name] {
		return fmt.Errorf("%q is there twice", name)
	}
	seen[name] = true
	if name == "a" {
		m.arguments = value
		return nil
	}
	return json.Unmarshal(value, into)
}

// memberName returns the name that a text of JSON is, or "" for one that is longer than
// any member's is, however it is written.
func memberName(text []byte) (name string) {
	if len(text) > len(`"\u0066"`) || json.Unmarshal(text, &name) != nil {
		return ""
	}
	return name
}

// validJSONEnd returns where the value ends that begins at at, of a text that is valid.
func validJSONEnd(text []byte, at int) int {
	for depth := 0; ; at++ {
		switch text[at] {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case '[', '{':
			depth++
			continue
		case ']', '}':
			if depth == 0 {
				return at // of a number or a word
			}
			depth--
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return at + 1
		}
	}
}
