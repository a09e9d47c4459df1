package handoff

import (
	"strings"

	"github.com/nearcall/nearcall/internal/hostname"
)

// HostMatches reports whether a request for this host, as in its Host header, fits a
// pattern: "www.example.com", "*.example.com" for every name below example.com, or "*"
// for any. It ignores a port, a final dot, and the case of letters. It compares as
// nearcall front does.
func HostMatches(host, pattern string) bool {
	name := hostname.Normalize(hostname.WithoutPort(host))
	domain, below := strings.CutPrefix(hostname.Normalize(pattern), "*")
	if !below {
		return name == domain
	}
	return domain == "" || len(name) > len(domain) && strings.HasSuffix(name, domain)
}
