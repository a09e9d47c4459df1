package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/handoff"
)

// A knownTable is how one of the file is written.
type knownTable struct {
	name, header string
	keys         []knownKey
}

// A knownKey is what a table can have.
type knownKey struct {
	name    string
	form    form
	example string
}

// A form is what the value of a key is.
type form string

const (
	oneText     form = "one text in quotes"
	someTexts   form = "a list of texts in quotes"
	wholeNumber form = "one whole number"
	someNumbers form = "a list of whole numbers"
	truth       form = "true or false"
)

// tables is all that a file can have, for whoever wrote something else.
var tables = []knownTable{
	{"listen", "[[listen]]", []knownKey{
		{"name", oneText, `"web"`}, {"address", oneText, `"tcp:0.0.0.0:80"`}, {"protocol", oneText, `"http"`}, {"defer_accept", truth, "true"}, {"proxy_protocol", truth, "true"}}},
	{"route", "[[route]]", []knownKey{
		{"name", oneText, `"pages"`}, {"host", oneText, `"www.example.com"`}, {"path", oneText, `"/api"`},
		{"server_name", oneText, `"www.example.com"`}, {"backend", oneText, `"pages"`}}},
	{"backend", "[backend.NAME]", []knownKey{
		{"sockets", someTexts, `["unix:/run/site/pages.sock"]`}, {"weights", someNumbers, "[3, 1]"}, {"users", someTexts, `["www-data"]`}, {"wait_ms", wholeNumber, fmt.Sprint(waitMsDefault)}, {"otherwise", oneText, `"503"`}}},
	{"timeouts", "[timeouts]", []knownKey{
		{"peek_ms", wholeNumber, fmt.Sprint(handoff.PeekTimeout.Milliseconds())}, {"linger_ms", wholeNumber, fmt.Sprint(lingerMsDefault)}, {"health_ms", wholeNumber, fmt.Sprint(healthMsDefault)}, {"drain_ms", wholeNumber, fmt.Sprint(drainMsDefault)}, {"hand_back_ms", wholeNumber, fmt.Sprint(handBackMsDefault)}}},
	{"limits", "[limits]", []knownKey{
		{"held_max", wholeNumber, fmt.Sprint(heldDefault)}, {"held_per_client_max", wholeNumber, fmt.Sprint(heldPerClientDefault)}, {"head_bytes_max", wholeNumber, fmt.Sprint(headBytesDefault)}}},
	{"log", "[log]", []knownKey{{"handoffs", truth, "true"}}},
	{"metrics", "[metrics]", []knownKey{{"address", oneText, `"unix:/run/site/metrics.sock"`}}},
	{"control", "[control]", []knownKey{{"address", oneText, `"unix:/run/site/control.sock"`}}},
}

// tableOf returns nil where there is none of that name.
func tableOf(name string) *knownTable {
	i := slices.IndexFunc(tables, func(t knownTable) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return &tables[i]
}

// key returns nil where the table has none of that name.
func (t *knownTable) key(name string) *knownKey {
	i := slices.IndexFunc(t.keys, func(k knownKey) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &t.keys[i]
}

func (t *knownTable) unknown(name string) string {
	hint := ""
	if other := tableOf(name); other != nil {
		hint = fmt.Sprintf("; %s is a table of its own", other.header)
	}
	return fmt.Sprintf("%q is not known here: %s%s", name, t.names(), hint)
}

// names is "a, b and c are", or "a is".
func (t *knownTable) names() string {
	if len(t.keys) == 1 {
		return t.keys[0].name + " is"
	}
	var names []string
	for _, k := range t.keys {
		names = append(names, k.name)
	}
	return enumeration(names) + " are"
}

func headers() string {
	var all []string
	for _, t := range tables {
		all = append(all, t.header)
	}
	return enumeration(all)
}

func enumeration(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// wanted is "one whole wholeNumber, as wait_ms = 3000".
func (k *knownKey) wanted() string { return fmt.Sprintf("%s, as %s", k.form, k.line()) }

func (k *knownKey) line() string { return k.name + " = " + k.example }

// misnamed returns what is wrong with a table's header; empty: nothing is.
func misnamed(parts []string, array bool) string {
	t := tableOf(parts[0])
	written := "[" + strings.Join(parts, ".") + "]"
	if array {
		written = "[" + written + "]"
	}
	switch {
	case t == nil:
		return ""
	case t.name == "backend" && len(parts) > 2:
		return fmt.Sprintf("%s: a name with dots stands in quotes; write [backend.%q]", written, strings.Join(parts[1:], "."))
	case t.name == "backend" && array:
		return fmt.Sprintf("%s: each backend has one table, with its name; write %s", written, t.header)
	case len(parts) == 1 && t.name != "backend" && array != strings.HasPrefix(t.header, "[["):
		return fmt.Sprintf("%s stands in other brackets here: write %s", written, t.header)
	}
	return ""
}
