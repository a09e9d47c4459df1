// Package hostname has what names of hosts are compared by: in handoff, and in the front's
// table of routes.
package hostname

import "strings"

// Normalize returns a name as names are compared: in lower case, without the final dot.
func Normalize(name string) string {
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// WithoutPort removes the port of a host. The colons of an IPv6 address, which are within
// brackets, stay.
func WithoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host[colon:], ']') >= 0 {
		return host
	}
	return host[:colon]
}
