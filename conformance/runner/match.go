package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// matcher compares what arrived with what a vector says. Only members that the
// vector names are compared.
type matcher struct {
	encode *encoder
}

func (m *matcher) message(expected any, got received) error {
	members, ok := expected.(object)
	if !ok {
		return fmt.Errorf("%v describes no message", expected)
	}
	if choices, ok := members["one_of"].([]any); ok && len(members) == 1 {
		return m.oneOf(choices, got)
	}
	for name, value := range members {
		if err := m.member(name, value, got); err != nil {
			return err
		}
	}
	return nil
}

// oneOf compares a message with several descriptions of it.
func (m *matcher) oneOf(choices []any, got received) error {
	for _, choice := range choices {
		if m.message(choice, got) == nil {
			return nil
		}
	}
	return fmt.Errorf("expected one of %s", show(choices))
}

func (m *matcher) member(name string, expected any, got received) error {
	switch name {
	case "payload":
		return m.payload(expected, got)
	case "value", "json":
		return m.decoded(name, expected, got)
	}
	found, ok := got[name]
	if !ok {
		return fmt.Errorf("%s: expected %s, got nothing", name, show(expected))
	}
	return m.value(name, expected, found)
}

func (m *matcher) payload(expected any, got received) error {
	wanted, err := m.encode.bytes(expected)
	if err != nil {
		return err
	}
	payload, _ := got["payload"].([]byte)
	if !bytes.Equal(wanted, payload) {
		return fmt.Errorf("payload: expected %s, got %s", shortHex(wanted), shortHex(payload))
	}
	return nil
}

// decoded opens the payload as MessagePack ("value") or JSON ("json").
func (m *matcher) decoded(name string, expected any, got received) error {
	payload, _ := got["payload"].([]byte)
	var value any
	var err error
	if name == "value" {
		value, err = decodeMsgpack(payload)
	} else {
		value, err = decodeJSON(payload)
	}
	if err != nil {
		return fmt.Errorf("payload %s: %w", shortHex(payload), err)
	}
	return m.value(name, expected, value)
}

func decodeJSON(text []byte) (any, error) {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	var value any
	err := reader.Decode(&value)
	return value, err
}

// value compares JSON-like values; an object may be a condition.
func (m *matcher) value(path string, expected, got any) error {
	resolved, err := m.encode.vars.resolve(expected)
	if err != nil {
		return err
	}
	switch e := resolved.(type) {
	case object:
		if checked, err := m.condition(path, e, got); checked {
			return err
		}
		return m.pairs(path, e, got)
	case []any:
		return m.list(path, e, got)
	}
	if !equal(resolved, got) {
		return fmt.Errorf("%s: expected %s, got %s", path, show(resolved), show(got))
	}
	return nil
}

func (m *matcher) list(path string, expected []any, got any) error {
	list, ok := got.([]any)
	if !ok || len(list) != len(expected) {
		return fmt.Errorf("%s: expected %s, got %s", path, show(expected), show(got))
	}
	for i := range expected {
		if err := m.value(fmt.Sprintf("%s[%d]", path, i), expected[i], list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) pairs(path string, expected object, got any) error {
	pairs, ok := got.(object)
	if !ok {
		return fmt.Errorf("%s: expected %s, got %s", path, show(expected), show(got))
	}
	for key, value := range expected {
		found, ok := pairs[key]
		if !ok {
			return fmt.Errorf("%s.%s: expected %s, got nothing", path, key, show(value))
		}
		if err := m.value(path+"."+key, value, found); err != nil {
			return err
		}
	}
	return nil
}

// condition handles {"contains": text}, {"not": v}, {"min": n}, {"max": n},
// {"one_of": [...]} and {"bin": bytes}; it reports whether it was one.
func (m *matcher) condition(path string, e object, got any) (bool, error) {
	if len(e) != 1 {
		return false, nil
	}
	for name, operand := range e {
		resolved, err := m.encode.vars.resolve(operand)
		if err != nil {
			return true, err
		}
		holds, known, err := m.holds(name, resolved, got)
		if known && err == nil && !holds {
			err = fmt.Errorf("%s: expected %s %s, got %s", path, name, show(resolved), show(got))
		}
		return known, err
	}
	return false, nil
}

func (m *matcher) holds(name string, operand, got any) (holds, known bool, err error) {
	switch name {
	case "contains":
		text := strings.ToLower(fmt.Sprint(operand))
		return strings.Contains(strings.ToLower(fmt.Sprint(got)), text), true, nil
	case "not":
		return m.value("", operand, got) != nil, true, nil
	case "min", "max":
		bound, err := toNumber(operand)
		number, isNumber := got.(uint64)
		return isNumber && (name == "min" && number >= bound || name == "max" && number <= bound), true, err
	case "bin":
		wanted, err := m.encode.bytes(operand)
		data, isBytes := got.([]byte)
		return isBytes && bytes.Equal(wanted, data), true, err
	case "one_of":
		for _, choice := range operand.([]any) {
			if m.value("", choice, got) == nil {
				return true, true, nil
			}
		}
		return false, true, nil
	}
	return false, false, nil
}

// equal compares a value of a vector with a received one; numbers by value.
func equal(expected, got any) bool {
	wanted, isNumber := asFloat(expected)
	found, isFound := asFloat(got)
	if isNumber && isFound {
		return wanted == found && fmt.Sprint(expected) == fmt.Sprint(got) || wanted == found && wanted < 1<<53
	}
	return reflect.DeepEqual(expected, got)
}

func asFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case json.Number:
		if number, err := strconv.ParseUint(string(v), 0, 64); err == nil {
			return float64(number), true
		}
		number, err := v.Float64()
		return number, err == nil
	case uint64:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func show(value any) string {
	if data, ok := value.([]byte); ok {
		return shortHex(data)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > 200 {
		return string(text[:200]) + "..."
	}
	return string(text)
}
