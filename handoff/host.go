package handoff

import "strings"

// HostMatches tells whether a request for this host, as in its Host header, fits a pattern
// as nearcall front compares them: "www.example.com", "*.example.com" for every name
// below example.com, or "*". A port, a final dot and the case of letters make no
// difference.
func HostMatches(host, pattern string) bool {
	name := plainHost(withoutPort(host))
	domain, below := strings.CutPrefix(plainHost(pattern), "*")
	if !below {
		return name == domain
	}
	return domain == "" || len(name) > len(domain) && strings.HasSuffix(name, domain)
}

func plainHost(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// withoutPort leaves the colons of an IPv6 address, which are within brackets.
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host[colon:], ']') >= 0 {
		return host
	}
	return host[:colon]
}
