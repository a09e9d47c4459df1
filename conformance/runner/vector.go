package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// vector is one file of conformance/vectors; see conformance/README.md.
type vector struct {
	Meaning string `json:"meaning"`
	Spec    string `json:"spec"`
	Side    string `json:"side"`
	Slow    bool   `json:"slow"`
	Local   bool   `json:"local"`
	Timed   bool   `json:"timed"`
	// Unagreed: it sends descriptors that nobody agreed to, which new kernels refuse.
	Unagreed bool           `json:"unagreed_descriptors"`
	Own      *ownServer     `json:"own_server"`
	Connect  map[string]any `json:"connect"`
	Cases    []object       `json:"cases"`
	Steps    []object       `json:"steps"`

	name string
}

// ownServer asks for a server of its own, with options.
type ownServer struct {
	Arguments []string `json:"arguments"`
}

// trial is a vector with the values of one of its cases.
type trial struct {
	*vector
	name   string
	values object

	oldKernel bool
}

func (v *vector) check() error {
	if v.Meaning == "" || v.Spec == "" || len(v.Steps) == 0 {
		return fmt.Errorf("%s: meaning, spec and steps are needed", v.name)
	}
	if v.Side != "server" && v.Side != "caller" {
		return fmt.Errorf("%s: side is %q, it can be server or caller", v.name, v.Side)
	}
	if !strings.HasPrefix(v.name, "accept_") && !strings.HasPrefix(v.name, "reject_") {
		return fmt.Errorf("%s: a name begins with accept_ or reject_", v.name)
	}
	for i, step := range v.Steps {
		if _, err := stepVerb(step); err != nil {
			return fmt.Errorf("%s: step %d: %w", v.name, i+1, err)
		}
	}
	return nil
}

func readVector(path string) (*vector, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := &vector{name: strings.TrimSuffix(filepath.Base(path), ".json")}
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	reader.DisallowUnknownFields()
	if err := reader.Decode(v); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, v.check()
}

// readVectors reads every vector of a folder, in the order of their names.
func readVectors(folder string) ([]*vector, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s holds no vector", folder)
	}
	var vectors []*vector
	for _, path := range paths {
		v, err := readVector(path)
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, v)
	}
	return vectors, nil
}

// trials expands the cases: a value "1..95" stands for every number between. Whoever is
// sent descriptors takes them another way on old kernels, and so is tried there as well.
func (v *vector) trials() (out []trial) {
	for _, t := range v.cases() {
		old := t
		old.oldKernel = true
		switch {
		case v.Unagreed:
			out = append(out, old)
		case v.sendsDescriptors():
			old.name += " on an old kernel"
			out = append(out, t, old)
		default:
			out = append(out, t)
		}
	}
	return out
}

func (v *vector) cases() (out []trial) {
	if len(v.Cases) == 0 {
		return []trial{{vector: v, name: v.name}}
	}
	for _, values := range v.Cases {
		for _, expanded := range expandRange(values) {
			out = append(out, trial{vector: v, name: v.name + caseName(expanded), values: expanded})
		}
	}
	return out
}

func (v *vector) sendsDescriptors() bool {
	return slices.ContainsFunc(v.Steps, func(step object) bool { return step["descriptors"] != nil })
}

func expandRange(values object) []object {
	for name, value := range values {
		first, last, ok := parseRange(value)
		if !ok {
			continue
		}
		var out []object
		for number := first; number <= last; number++ {
			one := object{}
			for key := range values {
				one[key] = values[key]
			}
			one[name] = json.Number(strconv.Itoa(number))
			out = append(out, one)
		}
		return out
	}
	return []object{values}
}

func parseRange(value any) (first, last int, ok bool) {
	text, _ := value.(string)
	from, to, found := strings.Cut(text, "..")
	if !found {
		return 0, 0, false
	}
	first, err := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	return first, last, err == nil && err2 == nil
}

// caseName is "[length=0]", or "[the case's own name]" when it has one.
func caseName(values object) string {
	if name, ok := values["case"]; ok {
		return fmt.Sprintf("[%v]", name)
	}
	var parts []string
	for key, value := range values {
		parts = append(parts, fmt.Sprintf("%s=%s", key, show(value)))
	}
	sort.Strings(parts)
	return "[" + strings.ReplaceAll(strings.Join(parts, ","), `"`, "") + "]"
}

// stepModifiers lists, for each verb, the members that may stand beside it.
var stepModifiers = map[string][]string{
	"open":         {"on", "expect"},
	"send":         {"on", "pieces_bytes", "descriptors"},
	"expect":       {"on", "within_ms", "capture"},
	"expect_all":   {"on", "within_ms"},
	"expect_close": {"on", "within_ms", "at_least_ms", "bytes_before"},
	"half_close":   {"on"},
	"silence":      {"on"},
	"close":        {"on"},
	"signal":       nil,
	"accept":       {"on", "within_ms"},
	"call":         nil,
	"ping":         nil,
	"result":       {"within_ms", "at_least_ms"},
	"served_call":  {"on"},
	"describe":     nil,
}

// stepVerb finds what a step does, and refuses members that would be ignored:
// a misspelt condition must not pass for one that holds.
func stepVerb(step object) (string, error) {
	var verb string
	for name := range step {
		if _, ok := stepModifiers[name]; ok && !isModifier(step, name) {
			verb = name
		}
	}
	if verb == "" {
		return "", fmt.Errorf("%s names nothing to do", show(step))
	}
	for name := range step {
		if name != verb && !contains(stepModifiers[verb], name) {
			return "", fmt.Errorf("%s does not go with %s", name, verb)
		}
	}
	return verb, nil
}

// isModifier tells "expect" inside {"open": ..., "expect": ...} from the verb.
func isModifier(step object, name string) bool {
	_, opens := step["open"]
	return opens && name == "expect"
}

func contains(list []string, wanted string) bool {
	for _, item := range list {
		if item == wanted {
			return true
		}
	}
	return false
}
