package tls

import (
	cryptotls "crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
)

// explainServer returns a function that says in words why a caller's handshake has failed. name
// is the one that the server's certificate must be for. A *transport.Unidentified means that
// one of the two does not accept the other.
func explainServer(name string) func(error) error {
	return func(err error) error {
		var unverified *cryptotls.CertificateVerificationError
		var unknown cryptotls.RecordHeaderError
		switch {
		case errors.As(err, &unverified):
			text := refusedCertificate("the server's certificate", first(unverified.UnverifiedCertificates), unverified.Err, name)
			return &transport.Unidentified{Text: text, Cause: err}
		case errors.As(err, &unknown):
			return fmt.Errorf("the server speaks no TLS: it may be one for tcp: addresses (%w)", err)
		case isAlert(err):
			return explainAlert(err)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("the server closed the connection while keys were being agreed on; its log may say why (%w)", err)
		}
		return fmt.Errorf("no agreement on keys with the server: %w", err)
	}
}

// explainCaller is explainServer for a server, whose log has the words around it.
func explainCaller(err error) error { return err }

func first(chain []*x509.Certificate) *x509.Certificate {
	if len(chain) == 0 {
		return new(x509.Certificate)
	}
	return chain[0]
}

// refusedCertificate says why a certificate is not accepted. what is the beginning of the
// sentence.
func refusedCertificate(what string, certificate *x509.Certificate, err error, name string) string {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &host):
		return fmt.Sprintf("%s is for %s, not for %s: connect to one of its names, or say which name it has (parameter name=, clienttls.Files.ServerName, --server-name)", what, listNames(hostsOf(certificate)), name)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if invalid.Cert != nil && !invalid.Cert.Equal(certificate) {
			what = fmt.Sprintf("%s does not hold, because that of its authority %.100q", what, invalid.Cert.Subject.String())
			return expired(what, invalid.Cert)
		}
		return expired(what, certificate)
	case errors.As(err, &unknown):
		return fmt.Sprintf("%s, issued by %.100q, is not from an authority that is trusted here: name the file with the authority's certificate (parameter ca=, --ca; ClientAuthorities on a server)", what, certificate.Issuer.String())
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Sprintf("%s may not be used for this side of a connection (extended key usage)", what)
	}
	return fmt.Sprintf("%s does not hold: %.300v", what, err)
}

// hostsOf returns the hosts that a server's certificate is for.
func hostsOf(certificate *x509.Certificate) []string {
	names := namesOf([]*x509.Certificate{certificate})
	for _, ip := range certificate.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

func expired(what string, certificate *x509.Certificate) string {
	if now := time.Now(); now.Before(certificate.NotBefore) {
		return fmt.Sprintf("%s is not valid before %s: is the clock right?", what, certificate.NotBefore.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s expired on %s: renew it", what, certificate.NotAfter.UTC().Format(time.RFC3339))
}

// The names in a certificate are told as far as this: it may hold any number of any length, also
// one that is not accepted, and is told to its owner and to the log.
const (
	namesTold     = 3
	nameBytesTold = 100
)

func listNames(names []string) string {
	if len(names) == 0 {
		return "no name"
	}
	told := make([]string, 0, namesTold)
	for _, name := range names[:min(len(names), namesTold)] {
		if len(name) > nameBytesTold {
			name = strings.ToValidUTF8(name[:nameBytesTold], "") + "..."
		}
		told = append(told, name)
	}
	text := strings.Join(told, ", ")
	if more := len(names) - namesTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// isAlert reports whether the peer has said why it ends the connection.
func isAlert(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "remote error" && !errors.Is(err, os.ErrDeadlineExceeded)
}

// alerts are the alerts that say that this side is not accepted, by the words of crypto/tls.
var alerts = []struct{ words, text string }{
	{"certificate required", "the server asks for a certificate, and none was given: name one (parameters cert= and key=, --cert and --key)"},
	{"expired certificate", "the server says that this program's certificate has expired: renew it"},
	{"revoked certificate", "the server says that this program's certificate was revoked: get another one"},
	{"unknown certificate authority", "the server does not trust the authority of this program's certificate"},
	{"bad certificate", "the server does not accept this program's certificate"},
	{"unknown certificate", "the server does not accept this program's certificate"},
	{"protocol version not supported", "the server speaks no TLS 1.3, which Nearcall needs"},
	{"no application protocol", "the server speaks TLS for another protocol than " + Protocol + ": is the port right?"},
	{"unrecognized name", "the server has no certificate for the name that was asked for"},
}

// explainAlert says what an alert means.
func explainAlert(err error) error {
	for _, alert := range alerts {
		if strings.Contains(err.Error(), alert.words) {
			return &transport.Unidentified{Text: alert.text, Cause: err}
		}
	}
	return fmt.Errorf("the server ended the connection: %w", err)
}
