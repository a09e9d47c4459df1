package main

import (
	"fmt"
)

// frame encodes a header, its extensions and payload. Every header field can be
// named to make it lie; length and extension_bytes are right when they are not.
func (e *encoder) frame(value any, _ object) ([]byte, error) {
	d, ok := value.(object)
	if !ok {
		return nil, fmt.Errorf("%v is no frame", value)
	}
	numbers, body, err := e.frameBody(d)
	if err != nil {
		return nil, err
	}
	for name, member := range d {
		if err := e.frameMember(numbers, name, member); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	header, err := frameLayout.encode(numbers)
	return append(header, body...), err
}

func (e *encoder) frameBody(d object) (map[string]uint64, []byte, error) {
	extensions, err := e.extensionList(d["extensions"], nil)
	if err != nil {
		return nil, nil, err
	}
	payload, err := e.bytes(d["payload"])
	if err != nil {
		return nil, nil, err
	}
	body := append(extensions, payload...)
	numbers := map[string]uint64{
		"length":          uint64(len(body)),
		"extension_bytes": uint64(len(extensions)),
	}
	return numbers, body, nil
}

func (e *encoder) frameMember(numbers map[string]uint64, name string, value any) error {
	resolved, err := e.vars.resolve(value)
	if err != nil {
		return err
	}
	switch name {
	case "extensions", "payload":
		return nil
	case "code":
		return e.statusPart(numbers, "status", e.spec.codes, resolved, 0)
	case "outcome":
		return e.statusPart(numbers, "status", e.spec.outcomes, resolved, 8)
	case "credit", "description_check":
		name = "status"
	case "type", "codec":
		if number, ok := namedNumber(name, resolved); ok {
			numbers[name] = number
			return nil
		}
	}
	numbers[name], err = toNumber(resolved)
	return err
}

func namedNumber(field string, value any) (uint64, bool) {
	text, ok := value.(string)
	if !ok {
		return 0, false
	}
	if field == "type" {
		return frameTypeNumber(text)
	}
	for number, name := range codecNames {
		if name == text {
			return uint64(number), true
		}
	}
	return 0, false
}

// statusPart adds a code or outcome, given by name or number, to a status.
func (e *encoder) statusPart(numbers map[string]uint64, field string, names map[string]uint64, value any, shift int) error {
	number, ok := names[fmt.Sprint(value)]
	if !ok {
		var err error
		if number, err = toNumber(value); err != nil {
			return err
		}
	}
	numbers[field] |= number << shift
	return nil
}

// reply is a frame that answers the last request which "expect" saw.
func (e *encoder) reply(value any, _ object) ([]byte, error) {
	d := object{
		"type": "REPLY", "call_id": "$request.call_id",
		"function_id": "$request.function", "codec": "$request.codec",
	}
	members, ok := value.(object)
	if !ok {
		return nil, fmt.Errorf("%v is no reply", value)
	}
	for name, member := range members {
		d[name] = member
	}
	return e.frame(d, nil)
}

func (e *encoder) hello(value any, _ object) ([]byte, error) {
	return e.greeting(helloLayout, value, object{
		"version_min": "1", "version_max": "1", "process_id": "$own.process_id",
		"frame_bytes_max": "$limit.frame_bytes_max", "clock_ns": "$clock.ns",
		"stream_credit_bytes": "$limit.stream_credit_bytes",
	})
}

func (e *encoder) welcome(value any, _ object) ([]byte, error) {
	return e.greeting(welcomeLayout, value, object{
		"version": "1", "instance": "0x4E43414C4C303031", "process_id": "$own.process_id",
		"frame_bytes_max": "$limit.frame_bytes_max", "clock_ns": "$clock.ns",
		"stream_credit_bytes": "$limit.stream_credit_bytes",
		"calls_in_flight_max": "$limit.calls_in_flight_max", "schema_hash": "0x1111222233334444",
	})
}

// greeting encodes a hello or welcome: the defaults, and over them the members
// that are named. "magic" and "extensions" are bytes.
func (e *encoder) greeting(l layout, value any, members object) ([]byte, error) {
	resolved, err := e.vars.resolve(value)
	if err != nil {
		return nil, err
	}
	given, ok := resolved.(object)
	if !ok {
		return nil, fmt.Errorf("%v is no greeting", resolved)
	}
	for name, member := range given {
		members[name] = member
	}
	extensions, err := e.extensionList(members["extensions"], nil)
	if err != nil {
		return nil, err
	}
	numbers := map[string]uint64{"total_bytes": uint64(l.bytes + len(extensions))}
	for name, member := range members {
		if name == "extensions" || name == "magic" {
			continue
		}
		if err := e.greetingMember(numbers, name, member); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	out, err := l.encode(numbers)
	if err != nil {
		return nil, err
	}
	if magic, ok := members["magic"]; ok {
		written, err := e.bytes(magic)
		if err != nil {
			return nil, err
		}
		copy(out, written)
	}
	return append(out, extensions...), nil
}

func (e *encoder) greetingMember(numbers map[string]uint64, name string, value any) error {
	resolved, err := e.vars.resolve(value)
	if err != nil {
		return err
	}
	if name == "code" {
		return e.statusPart(numbers, "status", e.spec.codes, resolved, 0)
	}
	numbers[name], err = toNumber(resolved)
	return err
}
