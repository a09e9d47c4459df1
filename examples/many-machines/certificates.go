//go:build linux

package main

import (
	"errors"
	"net"

	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// certify makes an authority for this run, ca.pem, and a certificate for the address of each host:
// NAME.pem, with its key in NAME.key. docs/guides/machines.md says how to make real ones.
func (s *scene) certify() error {
	made, err := authority.New("many-machines")
	if err != nil {
		return err
	}
	failures := []error{authority.Put(s.folder, "ca.pem", made.PEM())}
	for name, host := range s.hosts {
		pair, err := made.Issue(authority.Subject{CommonName: name, IPs: []net.IP{host.Address.AsSlice()}, Both: true})
		if err != nil {
			return err
		}
		failures = append(failures, authority.Put(s.folder, name+".pem", pair.Certificate), authority.Put(s.folder, name+".key", pair.Key))
	}
	return errors.Join(failures...)
}
