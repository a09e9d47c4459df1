package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// received is a message as a vector can describe it: member name to value.
// Numbers are uint64, bytes []byte.
type received map[string]any

// describeFrame names what a frame says, and refuses one that the contract
// does not allow its sender. So every vector checks every frame it reads.
func (s *specification) describeFrame(header map[string]uint64, body []byte) (received, error) {
	r := received{}
	for name, number := range header {
		r[name] = number
	}
	r["type"] = frameTypeName(header["type"])
	if err := checkUnusedFields(header); err != nil {
		return r, err
	}
	extensions, err := parseExtensions(body[:header["extension_bytes"]])
	if err != nil {
		return r, err
	}
	r["extensions"] = describeExtensions(extensions)
	r["payload"] = body[header["extension_bytes"]:]
	if int(header["codec"]) < len(codecNames) {
		r["codec"] = codecNames[header["codec"]]
	}
	switch r["type"] {
	case "ERROR":
		return r, s.describeError(r, header)
	case "REPLY":
		return r, describeDescription(r)
	case "REQUEST":
		r["description_check"] = header["status"]
	}
	return r, nil
}

func checkUnusedFields(header map[string]uint64) error {
	if header["type"] == 0 || header["type"] >= uint64(len(frameTypes)) {
		return fmt.Errorf("illegal frame: type %d", header["type"])
	}
	used := map[string]bool{"length": true, "type": true, "call_id": true}
	for _, name := range frameTypes[header["type"]].fields {
		used[name] = true
	}
	for name, number := range header {
		if !used[name] && number != 0 {
			return fmt.Errorf("illegal frame: a %s has %s %d, it must be 0", frameTypeName(header["type"]), name, number)
		}
	}
	if header["flags"]&^1 != 0 {
		return fmt.Errorf("illegal frame: flags %#x, only bit 0 has a meaning", header["flags"])
	}
	return nil
}

func describeExtensions(extensions []extension) []any {
	list := []any{}
	for _, e := range extensions {
		list = append(list, []any{uint64(e.number), string(e.content)})
	}
	return list
}

// describeError splits the status and opens the payload [message, details].
func (s *specification) describeError(r received, header map[string]uint64) error {
	if header["codec"] != 1 {
		return fmt.Errorf("illegal frame: an ERROR with codec %d, it must be 1", header["codec"])
	}
	if err := s.describeStatus(r, header["status"]); err != nil {
		return err
	}
	value, err := decodeMsgpack(r["payload"].([]byte))
	if err != nil {
		return fmt.Errorf("illegal frame: the payload of an ERROR: %w", err)
	}
	pair, ok := value.([]any)
	if !ok || len(pair) != 2 {
		return errors.New("illegal frame: the payload of an ERROR is not [message, details]")
	}
	message, ok := pair[0].(string)
	if !ok || uint64(len(message)) > s.limits["error_message_bytes_max"] {
		return fmt.Errorf("illegal frame: the message of an ERROR is %T of %d bytes", pair[0], len(message))
	}
	r["message"], r["details"] = message, pair[1]
	return checkDetails(pair[1])
}

func (s *specification) describeStatus(r received, status uint64) error {
	code, known := s.codeNames[status&0xFF]
	outcome, knownOutcome := s.outcomeTexts[status>>8&0xFF]
	r["code"], r["outcome"] = code, outcome
	if !known || !knownOutcome || status>>16 != 0 || status&0xFF == 0 {
		return fmt.Errorf("illegal frame: an ERROR with status %#x", status)
	}
	return nil
}

func checkDetails(value any) error {
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("illegal frame: the details of an ERROR are %T, not an array", value)
	}
	for _, entry := range list {
		if pair, ok := entry.([]any); !ok || len(pair) != 2 {
			return fmt.Errorf("illegal frame: a detail of an ERROR is no pair: %v", entry)
		}
	}
	return nil
}

// describeGreeting names the fields of a hello or welcome.
func (s *specification) describeGreeting(l layout, whole []byte) (received, error) {
	r := received{}
	for name, number := range l.decode(whole) {
		r[name] = number
	}
	if string(whole[:8]) != l.magic {
		return r, fmt.Errorf("the magic is %x", whole[:8])
	}
	extensions, err := parseExtensions(whole[l.bytes:])
	if err != nil {
		return r, err
	}
	r["extensions"] = describeExtensions(extensions)
	for _, e := range extensions {
		switch e.number {
		case 2:
			r["reason"] = string(e.content)
		case 4:
			r["connection_key"] = e.content
		case 5:
			if len(e.content) != 4 {
				return r, fmt.Errorf("a load of %d bytes, it must have 4", len(e.content))
			}
			r["load"] = uint64(binary.LittleEndian.Uint32(e.content))
		}
	}
	if status, ok := r["status"].(uint64); ok {
		r["code"] = s.codeNames[status]
	}
	return r, nil
}

// String shows a message in one line, long payloads cut.
func (r received) String() string {
	shown := map[string]any{}
	for name, value := range r {
		if bytes, ok := value.([]byte); ok {
			value = shortHex(bytes)
		}
		if number, ok := value.(uint64); ok && number == 0 {
			continue
		}
		shown[name] = value
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return fmt.Sprint(shown)
	}
	return string(text)
}

func shortHex(bytes []byte) string {
	if len(bytes) > 48 {
		return fmt.Sprintf("%x... (%d bytes)", bytes[:48], len(bytes))
	}
	return hex.EncodeToString(bytes)
}
