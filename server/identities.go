package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/status"
)

// patterns are names that a list admits; see WithAllowedIdentities.
type patterns []string

// anyCertificate is the pattern that fits every certificate, even one without names.
const anyCertificate = "*"

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
		if pattern != anyCertificate && (rest == "" || strings.Contains(rest, "*")) {
			return fmt.Errorf("%q is no pattern: write a whole name, *.example.org, spiffe://example.org/*, or *", pattern)
		}
	}
	return nil
}

// fit reports whether one of the names is admitted. They are nil if there is no certificate.
func (p patterns) fit(names []string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		return pattern == anyCertificate && names != nil ||
			slices.ContainsFunc(names, func(name string) bool { return fits(pattern, name) })
	})
}

func fits(pattern, name string) bool {
	if end, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(name, "."+end) && !strings.ContainsAny(name, notInHosts)
	}
	if beginning, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(name, beginning+"/")
	}
	return pattern == name
}

// notInHosts are characters that no DNS name has, but every URI and every mail address. One who
// is given one of those for a domain need not have a host there. A common name may have any.
const notInHosts = "/:@ "

// refuses returns why a peer with these names may not call the function, or nil.
func (f *function) refuses(names []string) *status.Error {
	if f.identities == nil || f.identities.fit(names) {
		return nil
	}
	return refusedf(status.PermissionDenied, "%s may not call %s; ask the server's operator to admit its name", listed(names), f.name)
}

// listed names a peer at the beginning of a sentence.
func listed(names []string) string {
	switch {
	case names == nil:
		return "a caller without a certificate"
	case len(names) == 0:
		return "a caller whose certificate has no name"
	}
	return strings.Join(names, ", ")
}
