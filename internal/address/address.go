// Package address parses the addresses of spec/transports.md.
package address

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nearcall/nearcall/spin"
)

// UnixPathBytesMax is what the kernel's sun_path holds, less the final NUL.
const UnixPathBytesMax = 107

// ErrAbstract is returned for "unix:@name" unless it was asked for.
var ErrAbstract = errors.New("an abstract socket can be taken by any user of the machine: use a path, or ask for abstract addresses explicitly (WithAbstractAddresses, --abstract)")

// An Address is a parsed address.
type Address struct {
	// Network is "unix", "tcp" or "tls".
	Network string
	// Target is the path, "@name", or host:port, as package net takes it.
	Target string
	// Host is the host that was written in a tcp: or tls: address, also where Target has one of
	// the addresses that it stands for. The certificate of a tls: server must be for it.
	Host string
	// SharedMemoryOff and Spin are the parameters shm and spin.
	SharedMemoryOff bool
	Spin            spin.Mode
	// Silence is the parameter silence, 0 if it is not there, and SilenceOff.
	Silence time.Duration
	// Plain is the parameter of that name, PlainUnsaid if it is not there.
	Plain Plain
	// TLS has the parameters of tls: addresses.
	TLS  TLS
	text string
}

// SilenceOff is the silence of silence=off.
const SilenceOff time.Duration = -1

// The bounds of the parameter silence.
const (
	SilenceMin = 100 * time.Millisecond
	SilenceMax = 300 * time.Second
)

// A Plain says what to do about connections to other machines that anybody on the way can
// read.
type Plain uint8

const (
	PlainUnsaid Plain = iota
	PlainWarned
	PlainRefused
	PlainQuiet
)

// TLS has paths of PEM files, and the name that the server's certificate must be for, if
// that is not the host of the address. Without Key, the key is in the file Cert.
type TLS struct{ CA, Cert, Key, Name string }

// Abstract reports whether the address lies in the abstract namespace.
func (a Address) Abstract() bool { return a.Network == "unix" && strings.HasPrefix(a.Target, "@") }

// String returns the address as it was written.
func (a Address) String() string { return a.text }

// Parse parses the address of one endpoint, such as one to listen on. allowAbstract permits
// "unix:@name".
func Parse(text string, allowAbstract bool) (Address, error) {
	if isList(text) {
		return Address{}, fail(text, "it has several endpoints, and one is needed here: only callers take a list")
	}
	return parseOne(text, allowAbstract)
}

func parseOne(text string, allowAbstract bool) (Address, error) {
	rest, parameters, _ := strings.Cut(text, "?")
	scheme, target, found := strings.Cut(rest, ":")
	if !found {
		return Address{}, fail(text, "it has no scheme: write unix:/path, tcp:host:port or tls:host:port")
	}
	parsed := Address{Network: scheme, Target: target, text: text}
	if err := parsed.setParameters(parameters); err != nil {
		return Address{}, err
	}
	switch scheme {
	case "unix":
		return parsed, checkUnix(parsed, allowAbstract)
	case "tcp":
		err := parsed.checkHostPort()
		return parsed, err
	case "tls":
		err := parsed.checkTLS()
		return parsed, err
	case "embed":
		return Address{}, fail(text, "a Go program cannot load a Go library: import the package that has the functions, or serve them at a unix: address")
	}
	return Address{}, fail(text, "unknown scheme %q: unix, tcp and tls are known", scheme)
}

func checkUnix(a Address, allowAbstract bool) error {
	switch {
	case a.Target == "" || a.Target == "@":
		return fail(a.text, "the path is empty")
	case strings.IndexByte(a.Target, 0) >= 0:
		return fail(a.text, "the path holds a NUL byte")
	case len(a.Target) > UnixPathBytesMax:
		return fail(a.text, "the path has %d bytes, the kernel takes %d: use a shorter directory such as /run/NAME", len(a.Target), UnixPathBytesMax)
	case a.Abstract() && !allowAbstract:
		return fmt.Errorf("nearcall: address %q: %w", a.text, ErrAbstract)
	case !a.Abstract() && a.Target[0] != '/':
		return fail(a.text, "the path is not absolute")
	}
	return nil
}

func (a *Address) checkTLS() error {
	if a.TLS.Cert == "" && a.TLS.Key != "" {
		return fail(a.text, "key is the file with the key of a certificate: name the certificate too, by cert")
	}
	return a.checkHostPort()
}

// checkHostPort also sets the host.
func (a *Address) checkHostPort() error {
	host, port, err := net.SplitHostPort(a.Target)
	if err != nil {
		return fail(a.text, "write %s:host:port, and %s:[::1]:port for IPv6", a.Network, a.Network)
	}
	if port == "" {
		return fail(a.text, "the port is empty")
	}
	a.Host = host
	return nil
}

func fail(text, format string, args ...any) error {
	return fmt.Errorf("nearcall: address %q: %s", text, fmt.Sprintf(format, args...))
}
