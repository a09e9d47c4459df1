package handoff

import (
	"strings"

	"github.com/nearcall/nearcall/internal/hostname"
)

// HostMatches tells whether a request for this host, as in its Host header, fits a pattern
// as nearcall front compares them: "www.example.com", "*.example.com" for every name
// below example.com, or "*". A port, a final dot and the case of letters make no
// difference.
func HostMatches(host, pattern string) bool {
	name := hostname.Normalize(hostname.WithoutPort(host))
	domain, below := strings.CutPrefix(hostname.Normalize(pattern), "*")
	if !below {
		return name == domain
	}
	return domain == "" || len(name) > len(domain) && strings.HasSuffix(name, domain)
}
