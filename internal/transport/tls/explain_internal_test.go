package tls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"
)

// A pair is a certificate and its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// issue makes a certificate that holds from an hour ago until then. The first one of a chain has no
// issuer.
func issue(t *testing.T, name string, authority bool, until time.Time, issuer *pair) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, IsCA: authority, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	from := &pair{made, key}
	if issuer != nil {
		from = issuer
	}
	der, err := x509.CreateCertificate(rand.Reader, made, from.certificate, &key.PublicKey, from.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{certificate, key}
}

// The certificate that has expired is named, which need not be the peer's own.
func TestExpiryIsToldOfTheCertificateThatHasExpired(t *testing.T) {
	yesterday, tomorrow := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	root := issue(t, "Root", true, tomorrow, nil)
	for _, test := range []struct {
		name                string
		authorityTo, leafTo time.Time
		want                string
	}{
		{"leaf", tomorrow, yesterday, "the certificate of worker expired on " + yesterday.UTC().Format(time.RFC3339)},
		{"authority", yesterday, tomorrow, `the certificate of worker does not hold, because that of its authority "CN=Between" expired on ` + yesterday.UTC().Format(time.RFC3339)},
	} {
		between := issue(t, "Between", true, test.authorityTo, root)
		leaf := issue(t, "worker", false, test.leafTo, between)
		read := &loaded{authorities: x509.NewCertPool(), revoked: new(revocationList)}
		read.authorities.AddCert(root.certificate)
		_, err := read.accept([]*x509.Certificate{leaf.certificate, between.certificate})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v\nwant %s", test.name, err, test.want)
		}
	}
}

// again makes another certificate for the same subject and key, by another issuer.
func again(t *testing.T, of, issuer *pair) *pair {
	t.Helper()
	made := *of.certificate
	made.SerialNumber = new(big.Int).Add(made.SerialNumber, big.NewInt(1))
	made.AuthorityKeyId = nil
	der, err := x509.CreateCertificate(rand.Reader, &made, issuer.certificate, &of.key.PublicKey, issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{certificate, of.key}
}

// If there are two ways from a caller's certificate to an authority, it is refused when something is
// revoked on both.
func TestOneWayThatIsNotRevokedIsEnough(t *testing.T) {
	tomorrow := time.Now().Add(24 * time.Hour)
	first, second := issue(t, "First", true, tomorrow, nil), issue(t, "Second", true, tomorrow, nil)
	between := issue(t, "Between", true, tomorrow, first)
	crossed := again(t, between, second)
	leaf := issue(t, "worker", false, tomorrow, between)
	for name, test := range map[string]struct {
		revoked []*pair
		refused bool
	}{
		"nothing": {}, "one way": {[]*pair{between}, false}, "the other way": {[]*pair{crossed}, false},
		"both ways": {[]*pair{between, crossed}, true}, "the caller": {[]*pair{leaf}, true},
	} {
		read := &loaded{authorities: x509.NewCertPool(), revoked: &revocationList{byAnyone: map[string]bool{}}}
		read.authorities.AddCert(first.certificate)
		read.authorities.AddCert(second.certificate)
		for _, one := range test.revoked {
			read.revoked.byAnyone[one.certificate.SerialNumber.Text(16)] = true
		}
		_, err := read.accept([]*x509.Certificate{leaf.certificate, between.certificate, crossed.certificate})
		if refused := err != nil; refused != test.refused {
			t.Errorf("%s is revoked: %v", name, err)
		}
	}
}
