package config

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// lines holds where each table and key stands: "route[2]", "route[2].backend",
// "backend.api.sockets". The decoder forgets it, and what is wrong between two
// keys is found only after decoding.
type lines map[string]int

// linesOf goes over a text that was decoded without an error.
func linesOf(text []byte) lines {
	found := lines{}
	counts := map[string]int{}
	table := ""
	var parser unstable.Parser
	parser.Reset(text)
	for parser.NextExpression() {
		node := parser.Expression()
		key, line := keyOf(&parser, node)
		switch node.Kind {
		case unstable.ArrayTable:
			table = fmt.Sprintf("%s[%d]", key, counts[key])
			counts[key]++
			found[table] = line
		case unstable.Table:
			table = key
			found[table] = line
		case unstable.KeyValue:
			found[strings.TrimPrefix(table+"."+key, ".")] = line
		}
	}
	return found
}

func keyOf(parser *unstable.Parser, node *unstable.Node) (key string, line int) {
	var parts []string
	for keys := node.Key(); keys.Next(); {
		if line == 0 {
			line = parser.Shape(keys.Node().Raw).Start.Line
		}
		parts = append(parts, string(keys.Node().Data))
	}
	return strings.Join(parts, "."), line
}

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
