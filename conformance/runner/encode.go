package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// encoder turns the descriptions of bytes in a vector into bytes. It refuses
// nothing: illegal frames are what it is for.
type encoder struct {
	spec *specification
	vars *variables
}

type object = map[string]any

// bytes encodes one description; see conformance/README.md for all of them.
func (e *encoder) bytes(description any) ([]byte, error) {
	resolved, err := e.vars.resolve(description)
	if err != nil {
		return nil, err
	}
	switch d := resolved.(type) {
	case nil:
		return nil, nil
	case []byte:
		return d, nil
	case string:
		return decodeHex(d)
	case []any:
		return e.concatenation(d)
	case object:
		return e.described(d)
	}
	return nil, fmt.Errorf("%v (%T) describes no bytes", resolved, resolved)
}

func decodeHex(text string) ([]byte, error) {
	out, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return out, nil
}

func (e *encoder) concatenation(list []any) ([]byte, error) {
	var out []byte
	for _, part := range list {
		encoded, err := e.bytes(part)
		if err != nil {
			return nil, err
		}
		out = append(out, encoded...)
	}
	return out, nil
}

// described encodes an object; one of its members is the verb.
func (e *encoder) described(d object) ([]byte, error) {
	verbs := map[string]func(any, object) ([]byte, error){
		"frame":      e.frame,
		"reply":      e.reply,
		"hello":      e.hello,
		"welcome":    e.welcome,
		"simple":     e.simple,
		"text":       e.text,
		"msgpack":    e.msgpack,
		"json":       e.json,
		"extensions": e.extensionList,
		"repeat":     e.repeat,
		"sequence":   e.sequence,
		"first":      e.first,
		"after":      e.after,
		"u8":         e.integer(1), "u16": e.integer(2), "u32": e.integer(4), "u64": e.integer(8),
		"u32_big_endian": e.bigEndian,
	}
	for name, value := range d {
		if verb, ok := verbs[name]; ok {
			out, err := verb(value, d)
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return out, err
		}
	}
	return nil, fmt.Errorf("%v describes no bytes", d)
}

func (e *encoder) integer(bytes int) func(any, object) ([]byte, error) {
	return func(value any, _ object) ([]byte, error) {
		number, err := e.vars.number(value)
		var wide [8]byte
		binary.LittleEndian.PutUint64(wide[:], number)
		return wide[:bytes], err
	}
}

func (e *encoder) bigEndian(value any, _ object) ([]byte, error) {
	number, err := e.vars.number(value)
	return binary.BigEndian.AppendUint32(nil, uint32(number)), err
}

func (e *encoder) text(value any, _ object) ([]byte, error) {
	resolved, err := e.vars.resolve(value)
	return []byte(fmt.Sprint(resolved)), err
}

func (e *encoder) msgpack(value any, _ object) ([]byte, error) {
	resolved, err := e.resolveTree(value)
	if err != nil {
		return nil, err
	}
	return appendMsgpack(nil, resolved)
}

func (e *encoder) json(value any, _ object) ([]byte, error) {
	resolved, err := e.resolveTree(value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(resolved)
}

// resolveTree replaces variables anywhere in a JSON value, and {"bin": bytes}
// by bytes.
func (e *encoder) resolveTree(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = e.resolveTree(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	case object:
		if bin, ok := v["bin"]; ok && len(v) == 1 {
			return e.bytes(bin)
		}
		out := object{}
		for key := range v {
			if out[key], err = e.resolveTree(v[key]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return e.vars.resolve(value)
}

func (e *encoder) repeat(value any, d object) ([]byte, error) {
	once, err := e.bytes(value)
	if err != nil {
		return nil, err
	}
	times, err := e.vars.number(d["times"])
	if err != nil {
		return nil, err
	}
	return []byte(strings.Repeat(string(once), int(times))), nil
}

// sequence encodes a description for every number from "from" to "to", which is
// "$i" in it.
func (e *encoder) sequence(value any, d object) ([]byte, error) {
	from, err := e.vars.number(d["from"])
	if err != nil {
		return nil, err
	}
	to, err := e.vars.number(d["to"])
	if err != nil {
		return nil, err
	}
	var out []byte
	for ; from <= to; from++ {
		e.vars.set("i", from)
		one, err := e.bytes(value)
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	return out, nil
}

func (e *encoder) slice(count any, d object) ([]byte, uint64, error) {
	whole, err := e.bytes(d["of"])
	if err != nil {
		return nil, 0, err
	}
	at, err := e.vars.number(count)
	if err == nil && at > uint64(len(whole)) {
		err = fmt.Errorf("%d of %d bytes", at, len(whole))
	}
	return whole, at, err
}

// first is {"first": 10, "of": bytes}; after is the rest of the same.
func (e *encoder) first(count any, d object) ([]byte, error) {
	whole, at, err := e.slice(count, d)
	if err != nil {
		return nil, err
	}
	return whole[:at], nil
}

func (e *encoder) after(count any, d object) ([]byte, error) {
	whole, at, err := e.slice(count, d)
	if err != nil {
		return nil, err
	}
	return whole[at:], nil
}

// simple is a message of the simple protocol around a JSON value.
func (e *encoder) simple(value any, _ object) ([]byte, error) {
	text, err := e.json(value, nil)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...), nil
}

// extensionList encodes [[type, content], ...]; content is text or bytes.
func (e *encoder) extensionList(given any, _ object) ([]byte, error) {
	value, err := e.vars.resolve(given)
	if err != nil {
		return nil, err
	}
	list, ok := value.([]any)
	if !ok {
		return e.bytes(value)
	}
	var out []byte
	for _, entry := range list {
		pair, ok := entry.([]any)
		if !ok || len(pair) != 2 {
			return e.bytes(value)
		}
		number, err := e.vars.number(pair[0])
		if err != nil {
			return nil, err
		}
		content, err := e.extensionContent(pair[1])
		if err != nil {
			return nil, err
		}
		out = appendExtension(out, extension{uint16(number), content})
	}
	return out, nil
}

func (e *encoder) extensionContent(value any) ([]byte, error) {
	resolved, err := e.vars.resolve(value)
	if err != nil {
		return nil, err
	}
	if text, ok := resolved.(string); ok {
		return []byte(text), nil
	}
	return e.bytes(resolved)
}
