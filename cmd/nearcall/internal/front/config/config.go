// Package config reads the one file that says what `nearcall front` does.
package config

import (
	"os"
	"slices"
	"time"
)

// A Config is a file that was read and found sound. It does not change.
type Config struct {
	Path     string
	Listens  []Listen
	Routes   []Route
	Backends []Backend
	Timeouts Timeouts
	Limits   Limits
	Log      Log
	// Metrics is where Prometheus asks, as tcp:host:port or unix:/path; none
	// where it is empty.
	Metrics string
	// Control is where the next process asks for the listeners; none where it is
	// empty.
	Control string
}

// A Listen is an address that clients connect to.
type Listen struct {
	// Name is what a listener is matched by when it is inherited or taken over.
	Name     string
	Address  string
	Protocol Protocol
	// DeferAccept leaves a TCP connection with the kernel until its first bytes
	// are there.
	DeferAccept bool
	// ProxyProtocol: each connection begins with what a load balancer says of its
	// client.
	ProxyProtocol bool
}

// A Protocol is what the clients of a listener speak.
type Protocol string

// The values of `protocol`.
const (
	// ProtocolAny goes by the first byte.
	ProtocolAny  Protocol = "any"
	ProtocolHTTP Protocol = "http"
	ProtocolTLS  Protocol = "tls"
)

// A Route sends what fits it to a backend. Exactly one of Host and ServerName is
// set; both may be "*.domain" and "*".
type Route struct {
	Name       string
	Host       string
	Path       string
	ServerName string
	Backend    string
}

// A Backend is a program that takes connections, in one process or in several.
type Backend struct {
	Name    string
	Sockets []string
	// Users may listen on the sockets, besides root and the front's own.
	Users []uint32
	// Weights are how much each socket gets; nil: as much as the others.
	Weights []int
	// Wait is how long a connection waits where no process is there.
	Wait      time.Duration
	Otherwise Otherwise
}

// Weight is that of a socket.
func (b Backend) Weight(socket int) int {
	if socket < len(b.Weights) {
		return b.Weights[socket]
	}
	return 1
}

// An Otherwise is what becomes of a connection that no process took in time.
type Otherwise string

// The values of `otherwise`.
const (
	OtherwiseAnswer Otherwise = "503"
	OtherwiseClose  Otherwise = "close"
)

// Timeouts are those of all listeners.
type Timeouts struct {
	// Peek is from accept to the last byte of the request's head or ClientHello.
	Peek time.Duration
	// Linger is how long a connection that got an error is still read from, so
	// that its client reads the answer.
	Linger time.Duration
	// Health is how long a process may leave a connection unanswered while another
	// of its backend is free.
	Health time.Duration
	// Drain is how long what was accepted may take after SIGTERM.
	Drain time.Duration
	// HandBack is how long connections may still come back to a process whose
	// listeners a successor has, and from a socket that was removed.
	HandBack time.Duration
}

// A Log is what is written besides what happens to processes and listeners.
type Log struct {
	// Handoffs has a line for each connection that is handed over.
	Handoffs bool
}

// Limits bound what clients can make the front hold.
type Limits struct {
	// HeldMax connections are looked at, wait for a backend or get an answer at a
	// time; of those HeldPerClientMax are from one address.
	HeldMax          int
	HeldPerClientMax int
	HeadBytesMax     int
}

// Read reads a configuration and checks it. Its errors name the file, the line,
// what is wrong and what to write instead; all of them are reported at once.
func Read(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// Backend returns the backend of a name.
func (c *Config) Backend(name string) (Backend, bool) {
	i := slices.IndexFunc(c.Backends, func(b Backend) bool { return b.Name == name })
	if i < 0 {
		return Backend{}, false
	}
	return c.Backends[i], true
}
