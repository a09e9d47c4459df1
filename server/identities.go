package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/status"
)

// patterns are names that a list admits; see WithAllowedIdentities.
type patterns []string

// anyName is the pattern that fits every name.
const anyName = "*"

// checkPatterns refuses lists in which there is a star where none has a meaning: such a list
// would admit nobody, or others than was meant.
func checkPatterns(list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("the list is empty, so it would admit nobody; \"*\" admits every peer with a certificate")
	}
	for _, pattern := range list {
		rest := strings.TrimPrefix(pattern, "*.")
		if rest == pattern {
			rest = strings.TrimSuffix(pattern, "/*")
		}
		if pattern != anyName && (rest == "" || strings.Contains(rest, "*")) {
			return fmt.Errorf("%q is no pattern: write a whole name, *.example.org, spiffe://example.org/*, or *", pattern)
		}
	}
	return nil
}

// fit reports whether one of the names is admitted.
func (p patterns) fit(names []string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return fits(pattern, name) })
	})
}

func fits(pattern, name string) bool {
	if end, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(name, "."+end)
	}
	if beginning, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(name, beginning+"/")
	}
	return pattern == anyName || pattern == name
}

// refuses returns why a peer with these names may not call the function, or nil.
func (f *function) refuses(names []string) *status.Error {
	if f.identities == nil || f.identities.fit(names) {
		return nil
	}
	return refusedf(status.PermissionDenied, "%s may not call %s; ask the server's operator to admit its name", listed(names), f.name)
}

// listed names a peer at the beginning of a sentence.
func listed(names []string) string {
	if len(names) == 0 {
		return "a caller without a certificate"
	}
	return strings.Join(names, ", ")
}
