package tls

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
)

func parseCertificates(text []byte) (certificates []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("it holds no certificate in PEM")
	}
	return certificates, nil
}

// A revocationList holds the serial numbers of certificates that are not accepted any more.
type revocationList struct {
	// byAnyone holds numbers that were given alone; byIssuer has the issuer before the number.
	byAnyone map[string]bool
	byIssuer map[string]bool
}

// readRevoked reads a file of lists in PEM (X509 CRL), of serial numbers in hexadecimal
// digits, one in a line, or of both. A # begins a comment. Lists must be signed by one of
// the authorities.
func readRevoked(path string, authorities []*x509.Certificate) (*revocationList, error) {
	list := &revocationList{byAnyone: map[string]bool{}, byIssuer: map[string]bool{}}
	if path == "" {
		return list, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the revoked certificates cannot be read: %w", err)
	}
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		// What is before the block may be numbers.
		before, _, _ := bytes.Cut(text, []byte("-----BEGIN"))
		if err := errors.Join(list.addNumbers(before), list.addList(block, authorities)); err != nil {
			return nil, fmt.Errorf("the revoked certificates in %s: %w", path, err)
		}
		text = rest
	}
	if err := list.addNumbers(text); err != nil {
		return nil, fmt.Errorf("the revoked certificates in %s: %w", path, err)
	}
	return list, nil
}

func (l *revocationList) addList(block *pem.Block, authorities []*x509.Certificate) error {
	if block.Type != "X509 CRL" {
		return fmt.Errorf("a PEM block %q, where X509 CRL was expected", block.Type)
	}
	parsed, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		return err
	}
	for _, authority := range authorities {
		if parsed.CheckSignatureFrom(authority) != nil {
			continue
		}
		for _, entry := range parsed.RevokedCertificateEntries {
			l.byIssuer[string(parsed.RawIssuer)+entry.SerialNumber.Text(16)] = true
		}
		return nil
	}
	return fmt.Errorf("a list by %q is signed by none of the authorities", parsed.Issuer.String())
}

func (l *revocationList) addNumbers(text []byte) error {
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(strings.ReplaceAll(line, ":", ""))
		if line == "" {
			continue
		}
		number, valid := new(big.Int).SetString(line, 16)
		if !valid {
			return fmt.Errorf("%.80q is no serial number in hexadecimal digits", line)
		}
		l.byAnyone[number.Text(16)] = true
	}
	return nil
}

// holds reports whether a certificate of the chain was revoked.
func (l *revocationList) holds(chain []*x509.Certificate) bool {
	for _, certificate := range chain {
		number := certificate.SerialNumber.Text(16)
		if l.byAnyone[number] || l.byIssuer[string(certificate.RawIssuer)+number] {
			return true
		}
	}
	return false
}
