package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// variables are what a "$name" in a vector can mean: the limits of
// spec/limits.json, the values of the case, what was captured, and the clock.
type variables struct {
	values map[string]any // uint64, string, []byte or a JSON value
	clock  func() uint64  // the monotonic clock in nanoseconds
}

func newVariables(limits map[string]uint64, clock func() uint64) *variables {
	v := &variables{values: map[string]any{}, clock: clock}
	for name, number := range limits {
		v.values["limit."+name] = number
	}
	v.values["own.process_id"] = uint64(os.Getpid())
	return v
}

func (v *variables) set(name string, value any) { v.values[name] = value }

// resolve replaces "$name", "$name+3" and "$name-3"; anything else is itself.
func (v *variables) resolve(value any) (any, error) {
	text, ok := value.(string)
	if !ok || !strings.HasPrefix(text, "$") {
		return value, nil
	}
	name, offset, err := splitOffset(text[1:])
	if err != nil {
		return nil, err
	}
	found, err := v.lookup(name)
	if err != nil || offset == 0 {
		return found, err
	}
	number, err := toNumber(found)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return number + uint64(offset), nil
}

func (v *variables) lookup(name string) (any, error) {
	switch name {
	case "clock.ns":
		return v.clock(), nil
	case "clock.ms":
		return v.clock() / 1e6, nil
	}
	if found, ok := v.values[name]; ok {
		return v.resolve(found)
	}
	return nil, fmt.Errorf("no variable %q", name)
}

// splitOffset parts "name+3" in "name" and 3; names hold no sign.
func splitOffset(text string) (string, int64, error) {
	at := strings.IndexAny(text, "+-")
	if at < 0 {
		return text, 0, nil
	}
	offset, err := strconv.ParseInt(text[at:], 10, 64)
	return text[:at], offset, err
}

// number resolves a value that must be a whole number.
func (v *variables) number(value any) (uint64, error) {
	resolved, err := v.resolve(value)
	if err != nil {
		return 0, err
	}
	return toNumber(resolved)
}

func toNumber(value any) (uint64, error) {
	switch n := value.(type) {
	case uint64:
		return n, nil
	case json.Number:
		return strconv.ParseUint(string(n), 0, 64)
	case string:
		return strconv.ParseUint(n, 0, 64)
	}
	return 0, fmt.Errorf("%v (%T) is no whole number", value, value)
}

// specification is what the runner reads from spec/*.json.
type specification struct {
	limits       map[string]uint64
	codeNames    map[uint64]string
	codes        map[string]uint64
	outcomeTexts map[uint64]string
	outcomes     map[string]uint64
}

func readSpecification(folder string) (*specification, error) {
	s := &specification{
		limits:    map[string]uint64{},
		codeNames: map[uint64]string{}, codes: map[string]uint64{},
		outcomeTexts: map[uint64]string{}, outcomes: map[string]uint64{},
	}
	if err := s.readLimits(filepath.Join(folder, "limits.json")); err != nil {
		return nil, err
	}
	return s, s.readErrors(filepath.Join(folder, "errors.json"))
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (s *specification) readLimits(path string) error {
	var file struct {
		Limits []struct {
			Name    string
			Default uint64
		}
	}
	if err := readJSON(path, &file); err != nil {
		return err
	}
	for _, limit := range file.Limits {
		s.limits[limit.Name] = limit.Default
	}
	return nil
}

func (s *specification) readErrors(path string) error {
	type entry struct {
		Number uint64
		Name   string
		Text   string
	}
	var file struct{ Codes, Outcomes []entry }
	if err := readJSON(path, &file); err != nil {
		return err
	}
	for _, code := range file.Codes {
		s.codeNames[code.Number], s.codes[code.Name] = code.Name, code.Number
	}
	for _, outcome := range file.Outcomes {
		s.outcomeTexts[outcome.Number], s.outcomes[outcome.Text] = outcome.Text, outcome.Number
	}
	if len(s.codes) == 0 || len(s.outcomes) == 0 {
		return fmt.Errorf("%s: no codes or no outcomes", path)
	}
	return nil
}
