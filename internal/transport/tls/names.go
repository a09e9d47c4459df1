package tls

import (
	"crypto/x509"
	"strings"
)

// namesOf returns the names in the first certificate of a chain: its URIs, then its DNS
// names, then its mail addresses, and the common name only if there is no other. Names with
// control characters are left out, because names are written to logs. The result is nil only if
// there is no certificate.
func namesOf(chain []*x509.Certificate) []string {
	if len(chain) == 0 {
		return nil
	}
	leaf, names := chain[0], []string{}
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	names = append(append(names, leaf.DNSNames...), leaf.EmailAddresses...)
	if len(names) == 0 && leaf.Subject.CommonName != "" {
		names = append(names, leaf.Subject.CommonName)
	}
	printable := names[:0]
	for _, name := range names {
		if !strings.ContainsFunc(name, isControl) {
			printable = append(printable, name)
		}
	}
	return printable
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
