package gateway

import (
	"slices"
	"strings"
)

// subjects are those that gateways use besides the ones of the bus. spec/gateway.md describes them.
type subjects struct{ prefix string }

// member is where gateways announce themselves.
func (s subjects) member() string { return s.prefix + ".member" }

// who is where a gateway asks all others to announce themselves.
func (s subjects) who() string { return s.prefix + ".who" }

// bye is where a gateway says that it ends.
func (s subjects) bye() string { return s.prefix + ".bye" }

// hub is where the hub of another gateway gets messages of its streams. No stream has this name.
func (s subjects) hub(instance string) string { return s.prefix + ".b." + instance + ".x" }

// nobody is where the engine answers a gateway if another one is not there.
func (s subjects) nobody(asking, asked string) string {
	return s.prefix + ".nobody." + asking + "." + asked
}

// isPrefix reports whether a text consists of words of a subject with dots between them, and has no
// wildcards.
func isPrefix(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }) {
		return false
	}
	return !slices.Contains(strings.Split(text, "."), "")
}
