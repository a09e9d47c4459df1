package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
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
// none.
func parseUnusualRequest(message []byte) (simpleRequest, error) {
	decoder := json.NewDecoder(bytes.NewReader(message))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return simpleRequest{}, errors.New("it is not an object")
	}
	var m simpleMembers
	if err := m.read(decoder); err != nil {
		return simpleRequest{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return simpleRequest{}, errors.New("something follows the object")
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

// read reads the members and the closing bracket.
func (m *simpleMembers) read(decoder *json.Decoder) error {
	var unknown json.RawMessage
	seen := make(map[string]bool, 4)
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var into any = &unknown
		switch name {
		case "f":
			into = &m.function
		case "a":
			into = &m.arguments
		case "t":
			into = &m.timeoutMs
		case "d":
			into = &m.description
		}
		if into != &unknown {
			if seen[name.(string)] {
				return fmt.Errorf("%q is there twice", name)
			}
			seen[name.(string)] = true
		}
		if err := decoder.Decode(into); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}
