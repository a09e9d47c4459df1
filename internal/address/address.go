// Package address parses the addresses of spec/transports.md.
package address

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/nearcall/nearcall/spin"
)

// UnixPathBytesMax is what the kernel's sun_path holds, less the final NUL.
const UnixPathBytesMax = 107

// ErrAbstract is returned for "unix:@name" unless it was asked for.
var ErrAbstract = errors.New("an abstract socket can be taken by any user of the machine: use a path, or ask for abstract addresses explicitly (WithAbstractAddresses, --abstract)")

// An Address is a parsed address.
type Address struct {
	// Network is "unix" or "tcp".
	Network string
	// Target is the path, "@name", or host:port, as package net takes it.
	Target string
	// SharedMemoryOff and Spin are the parameters shm and spin.
	SharedMemoryOff bool
	Spin            spin.Mode
	text            string
}

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
		return Address{}, fail(text, "it has no scheme: write unix:/path or tcp:host:port")
	}
	parsed := Address{Network: scheme, Target: target, text: text}
	if err := parsed.setParameters(parameters); err != nil {
		return Address{}, err
	}
	switch scheme {
	case "unix":
		return parsed, checkUnix(parsed, allowAbstract)
	case "tcp":
		return parsed, checkTCP(parsed)
	case "embed":
		return Address{}, fail(text, "a Go program cannot load a Go library: import the package that has the functions, or serve them at a unix: address")
	}
	return Address{}, fail(text, "unknown scheme %q: unix and tcp are known", scheme)
}

// settings has what each parameter's values do, by "key=value".
var settings = map[string]func(*Address){
	"shm=auto":       func(*Address) {},
	"shm=off":        func(a *Address) { a.SharedMemoryOff = true },
	"spin=auto":      func(*Address) {},
	"spin=off":       func(a *Address) { a.Spin = spin.Off },
	"spin=dedicated": func(a *Address) { a.Spin = spin.Dedicated },
}

// setParameters applies what follows the question mark.
func (a *Address) setParameters(parameters string) error {
	if parameters == "" {
		return nil
	}
	if a.Network == "embed" {
		return nil
	}
	if a.Network != "unix" {
		return fail(a.text, "parameters are for unix: addresses; remove what follows the ?")
	}
	for parameter := range strings.SplitSeq(parameters, "&") {
		set, known := settings[parameter]
		if !known {
			return fail(a.text, "unknown parameter %q: shm=auto, shm=off, spin=auto, spin=off and spin=dedicated are known", parameter)
		}
		set(a)
	}
	return nil
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

func checkTCP(a Address) error {
	_, port, err := net.SplitHostPort(a.Target)
	if err != nil {
		return fail(a.text, "write tcp:host:port, and tcp:[::1]:port for IPv6")
	}
	if port == "" {
		return fail(a.text, "the port is empty")
	}
	return nil
}

func fail(text, format string, args ...any) error {
	return fmt.Errorf("nearcall: address %q: %s", text, fmt.Sprintf(format, args...))
}
