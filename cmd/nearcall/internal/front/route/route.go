// Package route decides where a connection goes: a table without state, made once.
package route

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/internal/hostname"
)

// A Rule sends what fits it to a target. A name is exact, "*.domain" for all names
// below the domain, or "*" for every name, also a missing one.
type Rule[Target any] struct {
	// TLS rules are for connections of which the server name is known, others for
	// requests that can be read.
	TLS  bool
	Name string
	// Path fits itself and all that is below it. Empty or "/" fits every path.
	Path   string
	Target Target
}

// A Table finds the rule for a connection. It does not change: safe for concurrent
// use.
type Table[Target any] struct {
	requests, tls names[Target]
}

// names are the rules of one kind, by name.
type names[Target any] struct {
	exact map[string][]Rule[Target]
	// below has the rules of "*.domain" by ".domain".
	below map[string][]Rule[Target]
	any   []Rule[Target]
}

// New makes a table. Of two rules for the same name and path the first one counts.
func New[Target any](rules []Rule[Target]) *Table[Target] {
	t := &Table[Target]{requests: newNames[Target](), tls: newNames[Target]()}
	for _, rule := range rules {
		rule.Name = hostname.Normalize(rule.Name)
		if rule.TLS {
			rule.Path = ""
			t.tls.add(rule)
		} else {
			t.requests.add(rule)
		}
	}
	t.requests.sort()
	t.tls.sort()
	return t
}

// Request returns the target of a request by its host, as in the Host header, and
// its path.
func (t *Table[Target]) Request(host, path string) (target Target, found bool) {
	return t.requests.find(hostname.Normalize(hostname.WithoutPort(host)), path)
}

// TLS returns the target of a TLS connection by its server name, which is empty
// when the client sent none.
func (t *Table[Target]) TLS(serverName string) (target Target, found bool) {
	return t.tls.find(hostname.Normalize(serverName), "")
}

func newNames[Target any]() names[Target] {
	return names[Target]{exact: map[string][]Rule[Target]{}, below: map[string][]Rule[Target]{}}
}

func (n *names[Target]) add(rule Rule[Target]) {
	switch domain, wild := strings.CutPrefix(rule.Name, "*"); {
	case wild && domain == "":
		n.any = append(n.any, rule)
	case wild:
		n.below[domain] = append(n.below[domain], rule)
	default:
		n.exact[rule.Name] = append(n.exact[rule.Name], rule)
	}
}

// sort puts the longest path of each name first.
func (n *names[Target]) sort() {
	longest := func(a, b Rule[Target]) int { return cmp.Compare(len(trimmed(b.Path)), len(trimmed(a.Path))) }
	for _, rules := range n.exact {
		slices.SortStableFunc(rules, longest)
	}
	for _, rules := range n.below {
		slices.SortStableFunc(rules, longest)
	}
	slices.SortStableFunc(n.any, longest)
}

// find takes the most specific name that has a fitting path: the exact one, then
// "*." with the longest domain, then "*".
func (n *names[Target]) find(name, path string) (target Target, found bool) {
	if target, found = byPath(n.exact[name], path); found {
		return target, true
	}
	for rest := name; len(n.below) > 0; {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			break
		}
		// A name that begins with the dot is not below the domain.
		if dot > 0 || len(rest) < len(name) {
			if target, found = byPath(n.below[rest[dot:]], path); found {
				return target, true
			}
		}
		rest = rest[dot+1:]
	}
	return byPath(n.any, path)
}

func byPath[Target any](rules []Rule[Target], path string) (target Target, found bool) {
	for i := range rules {
		if covers(rules[i].Path, path) {
			return rules[i].Target, true
		}
	}
	return target, false
}

// covers tells whether path is prefix or lies below it: /api covers /api, /api/x
// and /api?x, not /apis.
func covers(prefix, path string) bool {
	prefix = trimmed(prefix)
	if !strings.HasPrefix(path, prefix) {
		return false
	}
	return prefix == "" || len(path) == len(prefix) || path[len(prefix)] == '/' || path[len(prefix)] == '?'
}

func trimmed(path string) string { return strings.TrimRight(path, "/") }
