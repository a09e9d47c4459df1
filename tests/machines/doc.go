// Package machines tests calls between several hosts, which are network namespaces of this one:
// what becomes of them while links, servers and callers fail. It needs root.
package machines
