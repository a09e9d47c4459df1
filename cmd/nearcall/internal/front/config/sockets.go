package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/internal/address"
)

// A use is where the file says that something listens.
type use struct {
	key, address string
	kind         kind
	at           socket
}

// A kind says which part of the front listens at a socket.
type kind int

const (
	toClients kind = iota
	toOthers       // to successors, or to Prometheus
	elsewhere      // another program, for all backends that have the socket
)

// A socket is an address in one form of the many that it can have.
type socket struct {
	path, host string
	port       int
}

// usedTwice finds sockets that two are to listen on.
func (c *checker) usedTwice(config *Config) {
	uses := c.uses(config)
	slices.SortStableFunc(uses, func(a, b use) int { return c.lines.of(a.key) - c.lines.of(b.key) })
	for i, u := range uses {
		for _, before := range uses[:i] {
			if u.collides(before) {
				c.fail(u.key, "%s is used in line %d already%s: write another address, or remove one of them", u.address, c.lines.of(before.key), before.as(u))
				break
			}
		}
	}
}

func (u use) collides(other use) bool {
	switch {
	case u.kind == elsewhere && other.kind == elsewhere && u.key != other.key:
		return false
	case u.kind == toClients && other.kind == toClients && u.address == other.address:
		return true // Listeners are told apart by it even where its port is 0.
	}
	return u.at.meets(other.at)
}

// as tells how the same socket is written, where it is another way.
func (u use) as(other use) string {
	if u.address == other.address {
		return ""
	}
	return ", as " + u.address
}

func (c *checker) uses(config *Config) []use {
	var uses []use
	add := func(kind kind, key, text string) {
		parsed, err := address.Parse(text, false)
		if err != nil {
			return // It was told already, or is missing.
		}
		if at, err := socketOf(parsed); err == nil {
			uses = append(uses, use{key, text, kind, at})
		}
	}
	for i, listen := range config.Listens {
		add(toClients, fmt.Sprintf("listen[%d].address", i), listen.Address)
	}
	for _, b := range config.Backends {
		for _, text := range b.Sockets {
			add(elsewhere, "backend."+b.Name+".sockets", text)
		}
	}
	add(toOthers, "metrics.address", config.Metrics)
	add(toOthers, "control.address", config.Control)
	return uses
}

func socketOf(a address.Address) (socket, error) {
	if a.Network == "unix" {
		return socket{path: filepath.Clean(a.Target)}, nil
	}
	host, service, err := net.SplitHostPort(a.Target)
	if err != nil {
		return socket{}, err
	}
	port, err := net.LookupPort("tcp", service)
	return socket{host: strings.ToLower(host), port: port}, err
}

// meets reports whether only one of two sockets can be listened on.
func (s socket) meets(other socket) bool {
	if s.path != "" || other.path != "" {
		return s.path == other.path
	}
	// The kernel chooses another port for each 0.
	if s.port != other.port || s.port == 0 {
		return false
	}
	return s.host == other.host || s.covers(other.host) || other.covers(s.host)
}

// covers reports whether the host stands for all addresses, of which the other is
// one. A listener for IPv4 and one for IPv6 can be inherited side by side.
func (s socket) covers(host string) bool {
	if s.host == "" {
		return true
	}
	mine, err := netip.ParseAddr(s.host)
	if err != nil || !mine.IsUnspecified() {
		return false
	}
	its, err := netip.ParseAddr(host)
	return err == nil && its.Is4() == mine.Is4()
}
