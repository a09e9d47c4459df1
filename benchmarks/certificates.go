package main

import (
	"os"
	"path/filepath"

	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// certificates is the folder in which servers that speak TLS have theirs.
type certificates string

// write makes them, unless they are there.
func (c certificates) write() error {
	if _, err := os.Stat(c.authority()); err == nil {
		return nil
	}
	return authority.Write(string(c))
}

func (c certificates) authority() string   { return filepath.Join(string(c), "ca.pem") }
func (c certificates) certificate() string { return filepath.Join(string(c), "server.pem") }
func (c certificates) key() string         { return filepath.Join(string(c), "server.key") }

// of returns what a floor is told of them.
func (c certificates) of(p serverPlan) []string {
	if p.port != "tls" {
		return nil
	}
	return []string{c.certificate(), c.key()}
}
