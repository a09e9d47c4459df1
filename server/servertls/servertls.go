// Package servertls lets a server speak TLS 1.3, and know its callers by their
// certificates:
//
//	certificates, err := servertls.New(servertls.Files{
//		Certificate:       "/etc/shop/server.pem",
//		Key:               "/etc/shop/server.key",
//		ClientAuthorities: "/etc/shop/ca.pem",
//	})
//	s, err := server.New(certificates.Option(), server.WithAllowedIdentities("*.shop.example.org"))
//	err = s.ListenAndServe(ctx, "tls:0.0.0.0:7000")
//
// A program that does not import this package does not contain crypto/tls because of
// Nearcall. The guide docs/guides/tls.md shows how certificates are made, renewed and
// revoked.
package servertls

import (
	"net"

	"github.com/nearcall/nearcall/internal/transport/tls"
	"github.com/nearcall/nearcall/server"
)

// Files are the paths of a server's files, which are in PEM.
type Files struct {
	// Certificate holds the server's certificate, followed by those between it and its
	// authority. Key holds its key; if it is empty, the key is in Certificate.
	Certificate, Key string
	// ClientAuthorities holds the certificates of the authorities that issue those of
	// callers. If it is empty, callers are not asked for any.
	ClientAuthorities string
	// Revoked, unless it is empty, says which certificates of callers are not accepted any
	// more: it holds lists of the authorities (X509 CRL), serial numbers in hexadecimal
	// digits, one in each line, or both. What follows a # is a comment.
	Revoked string
	// Clients says whether a caller may do without a certificate.
	Clients Clients
}

// Clients says whether a caller may do without a certificate, if there are
// ClientAuthorities. One that does not hold is always refused.
type Clients uint8

const (
	// Required refuses callers that show no certificate.
	Required Clients = iota
	// Asked lets them call, without names.
	Asked
)

// Certificates are what Files name. They may be used by several servers, and by any number
// of goroutines.
type Certificates struct{ listening *tls.Listening }

// New reads the files.
func New(files Files) (*Certificates, error) {
	listening, err := tls.NewListening(tls.ServerFiles{
		Certificate: files.Certificate, Key: files.Key, ClientAuthorities: files.ClientAuthorities,
		Revoked: files.Revoked, Optional: files.Clients == Asked,
	})
	if err != nil {
		return nil, err
	}
	return &Certificates{listening}, nil
}

// Reload reads the files again, for example on SIGHUP. Connections that are made from then
// on use what it has read, and no earlier session is taken up again. A connection whose
// caller's certificate is not accepted any more is closed, and its caller is told why. The
// other connections go on. If a file cannot be used, Reload returns an error and everything
// stays as it was.
func (c *Certificates) Reload() error { return c.listening.Reload() }

// Option lets a server listen on tls: addresses with these certificates.
func (c *Certificates) Option() server.Option { return server.WithSecure(c.listening) }

// Listener returns a listener whose connections are those of another one, with TLS. Use it
// for sockets that somebody else has made, such as those of server.ActivationListeners, and
// pass it to Server.Serve.
func (c *Certificates) Listener(under net.Listener) net.Listener { return c.listening.Over(under) }
