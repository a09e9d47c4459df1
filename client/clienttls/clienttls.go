// Package clienttls lets a client call servers at tls: addresses:
//
//	c, err := client.New("tls:shop.example.org:7000", clienttls.With(clienttls.Files{
//		Authorities: "/etc/shop/ca.pem",
//		Certificate: "/etc/shop/worker.pem",
//		Key:         "/etc/shop/worker.key",
//	}))
//
// A program that does not import this package does not contain crypto/tls because of
// Nearcall. The guide docs/guides/tls.md shows how certificates are made and renewed.
package clienttls

import (
	cryptotls "crypto/tls"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/transport/tls"
)

// Files are the paths of a client's files, which are in PEM, and the server's name. Each may
// be empty. The parameters ca, cert, key and name of an address go before them.
//
// Files are looked at when a connection is made, at most once in a second, and read again if
// they have changed. Connections that are open go on. A file that cannot be read just then is
// looked at again at the next connection, and until then what was read before is used.
type Files struct {
	// Authorities holds the certificates of the authorities that the client trusts. If it
	// is empty, these are the authorities of the system.
	Authorities string
	// Certificate holds the client's own certificate, followed by those between it and its
	// authority, for servers that ask for one. Key holds its key; if it is empty, the key
	// is in Certificate.
	Certificate, Key string
	// ServerName is the name that the server's certificate must be for, if that is not the
	// host of the address.
	ServerName string
}

// With lets the client call servers at tls: addresses. If a file cannot be used, a call fails
// with INVALID_ARGUMENT, unless another endpoint of the address takes it.
func With(files Files) client.Option { return client.WithSecure(tls.CallingFrom(tls.Files(files))) }

// WithConfig is With for a program that makes a configuration itself. TLS 1.3 is used in any
// case, and the server's name is the host of the address unless the configuration has one.
// Without a configuration (nil), the authorities of the system are trusted.
func WithConfig(config *cryptotls.Config) client.Option {
	return client.WithSecure(tls.CallingWith(config))
}
