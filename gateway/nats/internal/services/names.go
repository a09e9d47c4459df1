package services

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// names makes the subjects and names of a service's endpoints.
type names struct {
	prefix string
	used   map[string]bool
}

func newNames(prefix, service string) *names {
	return &names{prefix: prefix + ".f." + service + ".", used: map[string]bool{}}
}

// subject returns the subject of a function. ok is false if its name cannot be part of one: stars
// and angle brackets stand for other subjects, and no part between dots may be empty.
func (n *names) subject(function string) (subject string, ok bool) {
	if strings.ContainsFunc(function, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }) {
		return "", false
	}
	for part := range strings.SplitSeq(function, ".") {
		if part == "" {
			return "", false
		}
	}
	return n.prefix + function, true
}

// endpoint returns a name for the endpoint of a function that no other has. Other characters
// than those that NATS allows become _.
func (n *names) endpoint(function string) string {
	name := strings.Map(func(r rune) rune {
		if isWordRune(r) {
			return r
		}
		return '_'
	}, function)
	if n.used[name] {
		sum := sha256.Sum256([]byte(function))
		name += "_" + hex.EncodeToString(sum[:3])
	}
	n.used[name] = true
	return name
}

// cancelSubjects returns what the subjects of all cancellations match.
func cancelSubjects(prefix string) string { return prefix + ".cancel.*" }

// mayAnswer reports whether a subject may be answered at. The gateway may publish where those who
// ask may not: with a reply subject of gateways they would make it say there what they choose.
func mayAnswer(prefix, reply string) bool {
	return !strings.HasPrefix(reply, prefix+".")
}
