package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// lines holds where each table and key stands: "route[2]", "route[2].backend",
// "backend.api.sockets". The decoder forgets it, and what is wrong between two
// keys is found only after decoding.
type lines map[string]int

// A reader goes over a text and remembers where everything stands.
type reader struct {
	*checker
	parser unstable.Parser
	text   source
	// counts are those of the tables that there can be several of.
	counts map[string]int
	// table is the one that the next key is in; last is the line of the last
	// expression.
	table string
	last  int
}

// read finds the lines of all keys, and what would not be understood after that.
func (c *checker) read(text []byte) {
	c.lines = lines{}
	r := &reader{checker: c, text: sourceOf(text), counts: map[string]int{}}
	r.parser.Reset(text)
	for r.parser.NextExpression() {
		r.expression(r.parser.Expression())
	}
	var malformed *unstable.ParserError
	if errors.As(r.parser.Error(), &malformed) {
		line := r.text.beginning(r.last, r.lineOf(malformed.Highlight))
		c.failAt(line, "%s", r.text.unread(line, r.table))
	}
}

func (r *reader) expression(node *unstable.Node) {
	parts, line := r.keyOf(node)
	if len(parts) == 0 {
		return
	}
	r.last = line
	name := strings.Join(parts, ".")
	switch node.Kind {
	case unstable.ArrayTable:
		r.table = fmt.Sprintf("%s[%d]", name, r.counts[name])
		r.counts[name]++
		name = r.table
	case unstable.Table:
		r.table = name
	default:
		name = strings.TrimPrefix(r.table+"."+name, ".")
	}
	if node.Kind != unstable.KeyValue {
		if problem := misnamed(parts, node.Kind == unstable.ArrayTable); problem != "" {
			r.failAt(line, "%s", problem)
		}
	}
	if before, twice := r.lines[name]; twice {
		r.failAt(line, "%s stands in line %d already: write it once", strings.TrimSpace(r.text.head(line)), before)
		if name == r.table {
			// What is said of a table is not said of its keys again.
			r.table = fmt.Sprintf("%s in line %d", name, line)
		}
	}
	r.lines[name] = line
}

func (r *reader) keyOf(node *unstable.Node) (parts []string, line int) {
	for keys := node.Key(); keys.Next(); {
		if line == 0 {
			line = r.parser.Shape(keys.Node().Raw).Start.Line
		}
		parts = append(parts, string(keys.Node().Data))
	}
	return parts, line
}

func (r *reader) lineOf(part []byte) int { return r.parser.Shape(r.parser.Range(part)).Start.Line }

// of returns the line of a key, or of what it would stand in.
func (l lines) of(key string) int {
	for {
		if line, found := l[key]; found {
			return line
		}
		end := strings.LastIndexByte(key, '.')
		if end < 0 {
			return 1
		}
		key = key[:end]
	}
}

// at returns the key whose value a line is of, and where that begins.
func (l lines) at(line int) (key string, begins int) {
	begins = 1
	for name, its := range l {
		if its <= line && its >= begins {
			key, begins = name, its
		}
	}
	return key, begins
}
