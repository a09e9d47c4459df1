package server

import (
	"bytes"
	"strconv"

	"github.com/nearcall/nearcall/internal/codec"
)

// parsePlain reads a request as nearly every caller writes it: with these four members
// alone, and names and hash without escapes. It reports false for every other message,
// which may be a request all the same. Preconditions: the message is UTF-8.
func (r *simpleRequest) parsePlain(message []byte) bool {
	at, ok := r.parseMembers(message, codec.SkipJSONSpace(message, 0))
	return ok && codec.SkipJSONSpace(message, at) == len(message) && len(r.function) > 0
}

// parseMembers reads an object that has one member at least. next is where it ends.
func (r *simpleRequest) parseMembers(message []byte, at int) (next int, ok bool) {
	for expected := byte('{'); at < len(message) && message[at] == expected; expected = ',' {
		if at, ok = r.parseMember(message, codec.SkipJSONSpace(message, at+1)); !ok {
			return 0, false
		}
		at = codec.SkipJSONSpace(message, at)
		if at < len(message) && message[at] == '}' {
			return at + 1, true
		}
	}
	return 0, false
}

// simpleNameBytes is the size of a member's name with its quotes.
const simpleNameBytes = len(`"f"`)

func (r *simpleRequest) parseMember(message []byte, at int) (next int, ok bool) {
	name := at
	at = codec.SkipJSONSpace(message, name+simpleNameBytes)
	if at >= len(message) || message[at] != ':' || message[name] != '"' || message[name+2] != '"' {
		return 0, false
	}
	at = codec.SkipJSONSpace(message, at+1)
	if next, ok = codec.JSONEnd(message, at); !ok {
		return 0, false
	}
	return next, r.takePlain(message[name+1], message[at:next])
}

// takePlain takes the value of a member, if it is as plain as that.
func (r *simpleRequest) takePlain(name byte, value []byte) (ok bool) {
	switch {
	case name == 'f' && r.function == nil:
		r.function, ok = plainText(value)
	case name == 'a' && r.arguments == nil:
		r.arguments, ok = value, true
	case name == 't' && !r.hasTimeout:
		var err error
		r.timeoutMs, err = strconv.ParseFloat(string(value), 64)
		r.hasTimeout, ok = true, err == nil
	case name == 'd' && !r.hasDescription:
		var text []byte
		text, ok = plainText(value)
		r.description, r.hasDescription = string(text), true
	}
	return ok
}

// plainText returns the text of a JSON string without escapes.
func plainText(value []byte) (text []byte, ok bool) {
	if value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil, false
	}
	return value[1 : len(value)-1], true
}
