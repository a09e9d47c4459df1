package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// checkFiles refuses files for TLS that cannot work. Nobody would be told otherwise until a
// connection fails, and then often the other side alone knows why.
func (c *Config) checkFiles() error {
	var err error
	if len(c.Engine.URLs) > 0 {
		err = c.Engine.checkFiles()
	} else {
		err = c.Engine.Embedded.checkFiles()
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if c.Direct == DirectOff {
		return nil
	}
	if err := c.DirectTLS.check(x509.ExtKeyUsageClientAuth); err != nil {
		return fmt.Errorf("direct calls: %w", err)
	}
	return nil
}

// checkFiles refuses files with which no engine can be connected to.
func (e *Engine) checkFiles() error {
	if e.Credentials != "" {
		if _, err := os.ReadFile(e.Credentials); err != nil {
			return err
		}
	}
	if e.Nkey != "" {
		if _, err := nats.NkeyOptionFromSeed(e.Nkey); err != nil {
			return fmt.Errorf("%s has no nkey: %w", e.Nkey, err)
		}
	}
	return e.TLS.check(x509.ExtKeyUsageClientAuth)
}

// checkFiles refuses ports that may not be opened, and files that the engines of other gateways would refuse. Each engine of a cluster
// is a server and a client.
func (e *Embedded) checkFiles() error {
	uses := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if e.ClusterListen != "" || len(e.Leafs) > 0 {
		uses = append(uses, x509.ExtKeyUsageClientAuth)
	}
	if err := e.TLS.check(uses...); err != nil {
		return err
	}
	if err := e.TLS.trustsItself(); err != nil {
		return err
	}
	_, err := e.options("")
	return err
}

// check makes sure that the files can be read, belong together, and are for what they are used for.
func (t *TLS) check(uses ...x509.ExtKeyUsage) error {
	if t.Authorities != "" {
		if _, err := t.authorities(); err != nil {
			return err
		}
	}
	if t.Certificate == "" || t.Key == "" {
		return nil
	}
	pair, err := t.own()
	if err != nil {
		return err
	}
	own, now := pair.Leaf, time.Now()
	if now.Before(own.NotBefore) || now.After(own.NotAfter) {
		return fmt.Errorf("certificate %s is valid from %s to %s, and not now: renew it, or see to the clock", t.Certificate, shownTime(own.NotBefore), shownTime(own.NotAfter))
	}
	for _, use := range uses {
		if len(own.ExtKeyUsage) > 0 && !slices.Contains(own.ExtKeyUsage, use) && !slices.Contains(own.ExtKeyUsage, x509.ExtKeyUsageAny) {
			return fmt.Errorf("certificate %s may not be used here: it lacks the extended key usage %s; issue it anew with extendedKeyUsage=serverAuth,clientAuth", t.Certificate, useName(use))
		}
	}
	return nil
}

// useName is the name that openssl has for what a certificate is for.
func useName(use x509.ExtKeyUsage) string {
	if use == x509.ExtKeyUsageClientAuth {
		return "clientAuth"
	}
	return "serverAuth"
}

func shownTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// authorities reads those that are trusted.
func (t *TLS) authorities() (*x509.CertPool, error) {
	text, err := os.ReadFile(t.Authorities)
	if err != nil {
		return nil, fmt.Errorf("the authorities that are trusted: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the authorities that are trusted: %s has no certificate in PEM", t.Authorities)
	}
	return pool, nil
}

// own reads the certificate, and its key, which must fit.
func (t *TLS) own() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return pair, fmt.Errorf("certificate %s and key %s: %w", t.Certificate, t.Key, err)
	}
	return pair, nil
}

// trustsItself makes sure that an own authority stands for the own certificate, because all engines
// of a cluster trust the same ones.
func (t *TLS) trustsItself() error {
	if t.Authorities == "" || t.Certificate == "" {
		return nil
	}
	trusted, err := t.authorities()
	if err != nil {
		return err
	}
	pair, err := t.own()
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if one, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(one)
		}
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: trusted, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return fmt.Errorf("no authority in %s stands for certificate %s: add its authority to that file, on all machines", t.Authorities, t.Certificate)
	}
	if err != nil {
		return fmt.Errorf("certificate %s: %w", t.Certificate, err)
	}
	return nil
}
