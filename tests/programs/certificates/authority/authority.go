// Package authority issues certificates for tests.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// An Authority issues certificates. Its serial numbers begin at 1.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	last        int64
}

// A Pair is a certificate with its key, both in PEM.
type Pair struct {
	Certificate, Key []byte
	Serial           *big.Int
}

// A Subject says what a certificate is for.
type Subject struct {
	CommonName     string
	URI            string
	DNSNames       []string
	EmailAddresses []string
	IPs            []net.IP
	Client         bool // it is for clients only, otherwise for servers only
	Both           bool // it is for clients and for servers
	// Until is when it expires, in a day if that is zero.
	Until time.Time
}

// New makes an authority.
func New(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{certificate: certificate, key: key, last: 1}, err
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte { return inPEM("CERTIFICATE", a.certificate.Raw) }

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Issue makes a certificate and its key.
func (a *Authority) Issue(s Subject) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a.last++
	until := s.Until
	if until.IsZero() {
		until = time.Now().Add(24 * time.Hour)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.last), Subject: pkix.Name{CommonName: s.CommonName},
		NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: s.DNSNames, EmailAddresses: s.EmailAddresses, IPAddresses: s.IPs,
	}
	if s.Both {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	} else if s.Client {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	if s.URI != "" {
		uri, err := url.Parse(s.URI)
		if err != nil {
			return nil, err
		}
		template.URIs = []*url.URL{uri}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{Certificate: inPEM("CERTIFICATE", der), Key: inPEM("PRIVATE KEY", secret), Serial: template.SerialNumber}, nil
}

// Revoke returns a list of certificates that the authority does not stand for any more.
func (a *Authority) Revoke(pairs ...*Pair) ([]byte, error) {
	template := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(24 * time.Hour)}
	for _, pair := range pairs {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: pair.Serial, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, a.certificate, a.key)
	if err != nil {
		return nil, err
	}
	return inPEM("X509 CRL", der), nil
}

// Loopback are the addresses of this machine.
func Loopback() []net.IP { return []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback} }

// subjects are what Write issues, each NAME.pem with NAME.key.
func subjects() map[string]Subject {
	yesterday := time.Now().Add(-24 * time.Hour)
	worker := func(name string) Subject {
		return Subject{CommonName: name, Client: true, URI: "spiffe://example.org/" + name, DNSNames: []string{name + ".example.org"}}
	}
	expired := worker("expired")
	expired.Until = yesterday
	here := Subject{CommonName: "server", DNSNames: []string{"localhost", "server.example.org"}, IPs: Loopback()}
	old := here
	old.Until = yesterday
	return map[string]Subject{
		"server": here, "expired-server": old,
		"other-name": {CommonName: "other", DNSNames: []string{"other.example.org"}},
		"client":     worker("client"), "expired": expired, "revoked": worker("revoked"),
	}
}

// Write makes a folder of certificates:
//
//	ca.pem           the authority of all except the stranger
//	server           for localhost, 127.0.0.1, ::1 and server.example.org
//	expired-server   the same, expired yesterday
//	other-name       a server's, for other.example.org
//	client           spiffe://example.org/client, client.example.org
//	expired          a client's, expired yesterday
//	revoked          a client's, on the list revoked-list.pem
//	stranger         a client's, of the authority stranger-ca.pem
//
// Each is NAME.pem, with its key in NAME.key.
func Write(folder string) error {
	authority, err := New("Test authority")
	if err != nil {
		return err
	}
	stranger, err := New("Other authority")
	if err != nil {
		return err
	}
	failures := []error{
		os.MkdirAll(folder, 0o700), Put(folder, "ca.pem", authority.PEM()), Put(folder, "stranger-ca.pem", stranger.PEM()),
		stranger.write(folder, "stranger", Subject{CommonName: "stranger", Client: true, URI: "spiffe://example.org/stranger"}, nil),
	}
	issued := map[string]*Pair{}
	for name, subject := range subjects() {
		failures = append(failures, authority.write(folder, name, subject, issued))
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	list, err := authority.Revoke(issued["revoked"])
	if err != nil {
		return err
	}
	return Put(folder, "revoked-list.pem", list)
}

func (a *Authority) write(folder, name string, subject Subject, issued map[string]*Pair) error {
	pair, err := a.Issue(subject)
	if err != nil {
		return err
	}
	if issued != nil {
		issued[name] = pair
	}
	return errors.Join(Put(folder, name+".pem", pair.Certificate), Put(folder, name+".key", pair.Key))
}

// Put writes a file as it should be done for files that are read while they change: at once.
func Put(folder, name string, text []byte) error {
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
