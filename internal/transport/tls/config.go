package tls

import (
	cryptotls "crypto/tls"
	"slices"

	"github.com/nearcall/nearcall/internal/address"
)

// Protocol is the name of the protocol inside, by which both sides can tell that they have
// met a program of another kind (ALPN).
const Protocol = "nearcall/1"

// sessionsKept is how many sessions a caller keeps, to take them up in later connections.
const sessionsKept = 8

// complete sets what every configuration of either side has. Records are as large as they
// can be from the first one on, because a frame is of use only when all of it has arrived.
func complete(config *cryptotls.Config) *cryptotls.Config {
	config.MinVersion = max(config.MinVersion, cryptotls.VersionTLS13)
	config.DynamicRecordSizingDisabled = true
	if !slices.Contains(config.NextProtos, Protocol) {
		config.NextProtos = append(slices.Clone(config.NextProtos), Protocol)
	}
	return config
}

// CallerConfig completes a copy of a caller's configuration.
func CallerConfig(base *cryptotls.Config) *cryptotls.Config {
	config := complete(base.Clone())
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = cryptotls.NewLRUClientSessionCache(sessionsKept)
	}
	return config
}

// forAddress returns the configuration with the name that the server's certificate must be
// for.
func forAddress(config *cryptotls.Config, a address.Address) *cryptotls.Config {
	name := a.TLS.Name
	if name == "" {
		name = config.ServerName
	}
	if name == "" {
		name = a.Host
	}
	if name == config.ServerName {
		return config
	}
	named := config.Clone()
	named.ServerName = name
	return named
}
