//go:build linux

package main

import (
	"errors"
	"net"

	"github.com/nearcall/nearcall/tests/machines/network"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// certificates are of an authority that is made for this run. docs/guides/tls.md says how to make
// real ones.
type certificates struct{ *authority.Authority }

func newAuthority(folder string) (certificates, error) {
	made, err := authority.New("many-machines")
	if err != nil {
		return certificates{}, err
	}
	return certificates{made}, authority.Put(folder, "ca.pem", made.PEM())
}

// issue makes a certificate for the address of a host: NAME.pem, with its key in NAME.key.
func (c certificates) issue(folder string, host *network.Host) error {
	pair, err := c.Issue(authority.Subject{CommonName: host.Name, IPs: []net.IP{host.Address.AsSlice()}})
	if err != nil {
		return err
	}
	return errors.Join(authority.Put(folder, host.Name+".pem", pair.Certificate), authority.Put(folder, host.Name+".key", pair.Key))
}
