package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/nearcall/nearcall/gateway/nats/internal/services"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/server"
)

// A Config says what a gateway does. Either Listen or Exports must be set.
type Config struct {
	// Name is what other gateways are told that this one is called, for their logs. It is
	// Host if it is "".
	Name string
	// Host is the machine, which is how gateways recognise others on the same one. It is the
	// host's name if it is "".
	Host string
	// Zone is a label for machines that are near each other, or "".
	Zone string
	// Prefix begins all subjects: "nearcall" if it is "".
	Prefix string
	// Listen is the unix: address at which functions of other machines can be called. With ""
	// the gateway only exports.
	Listen string
	// Server are further options of the server at Listen, such as server.WithSocketMode or
	// server.WithAllowedUsers.
	Server []server.Option
	// Exports are the servers of this machine whose functions others may call.
	Exports []Export
	// Engine says which engine is used.
	Engine Engine
	// Large says what becomes of values that no message of the engine can hold.
	Large Large
	// Direct says whether calls may leave the engine.
	Direct Direct
	// DirectTLS are the files with which tls: addresses of other machines are called, if Direct
	// lets gateways call them.
	DirectTLS TLS
	// Workers is how many calls of programs without Nearcall run at a time, for each exported
	// server: limit gateway_workers, which is also what 0 stands for.
	Workers int
	// DrainTimeout is how long a gateway that stops waits for calls: limit drain_timeout_ms,
	// which is also what 0 stands for. Calls go on for up to 10 minutes if only an export or the
	// functions of other machines change meanwhile.
	DrainTimeout time.Duration
	// Logger is slog.Default() if it is nil.
	Logger *slog.Logger
	// Observer is told of the calls that local callers make through the gateway. It may be nil.
	Observer *observe.Observer
}

// An Export is a server of this machine whose functions other machines may call.
type Export struct {
	// Name tells servers of a cluster apart that have different functions, and has letters,
	// digits, "_" and "-". Servers with the same name are interchangeable.
	Name string
	// Address is where the server listens: a unix: address.
	Address string
	// Functions are patterns of path.Match for names of functions; none stands for all functions.
	// Nothing else can be called through the gateway.
	Functions []string
	// Direct is a tls: address at which other machines reach the same server without the engine,
	// or "".
	Direct string
	// Version is what programs without Nearcall are told, such as "1.2.0": "0.0.0" if it is "".
	Version string
}

// An Engine says which NATS servers a gateway uses. Without URLs it has one of its own.
type Engine struct {
	// URLs are those of NATS servers, such as "nats://b.example:4222".
	URLs []string
	// Credentials is a file with a JWT and its key, as `nsc` writes it. Nkey is a file with the
	// seed of a key. At most one of both is set.
	Credentials, Nkey string
	// TLS are the files for connections to URLs.
	TLS TLS
	// Embedded says how the gateway's own engine works, if there are no URLs.
	Embedded Embedded
}

// TLS names PEM files. Those that are "" are not used.
type TLS struct {
	// Authorities are trusted instead of those of the system.
	Authorities string
	// Certificate and Key are this side's own.
	Certificate, Key string
}

// An Embedded is the NATS server that runs in a gateway.
type Embedded struct {
	// Listen is where programs connect, as "host:port". It is "127.0.0.1:4222" if it is "", and
	// port 0 stands for any that is free. "off" lets no program connect, and does not go together with
	// ClusterListen.
	Listen string
	// ClusterListen is where servers of a cluster connect, or "". ClusterName is "nearcall" if it
	// is "".
	ClusterListen, ClusterName string
	// Routes are URLs of other servers of the cluster, such as "nats://b.example:6222".
	Routes []string
	// LeafListen is where leaf nodes connect, or "". Leafs are URLs of servers whose leaf node
	// this one becomes, such as "nats-leaf://b.example:7422".
	LeafListen string
	Leafs      []string
	// TLS are the files for all of these connections. With Authorities everybody who connects
	// needs a certificate of one of them. Ports that other machines can reach demand that.
	TLS TLS
	// Plain permits ports that other machines can reach without a certificate, or without TLS.
	Plain bool
}

// A Large says what becomes of a call with arguments or a result that no message of the engine can
// hold.
type Large uint8

const (
	// Pieces sends them in several messages.
	Pieces Large = iota
	// Refuse refuses arguments before anything is sent.
	Refuse
)

// A Direct says whether calls may leave the engine, for servers whose Export has Direct.
type Direct uint8

const (
	// DirectOff keeps all calls on the engine.
	DirectOff Direct = iota
	// DirectGateways lets this gateway call tls: addresses.
	DirectGateways
	// DirectCallers lets this gateway tell tls: addresses to its callers, who follow them if they
	// want to. It also includes DirectGateways.
	DirectCallers
)

const (
	defaultPrefix  = "nearcall"
	defaultEngine  = "127.0.0.1:4222"
	defaultVersion = "0.0.0"
	nameBytesMax   = 64
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// complete sets what was left out, and checks the rest.
func (c *Config) complete() error {
	if c.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("gateway: the host has no name (%w): set Config.Host", err)
		}
		c.Host = host
	}
	c.Name = cmp.Or(c.Name, c.Host)
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.Workers = cmp.Or(c.Workers, wire.GatewayWorkers)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, wire.DrainTimeoutMs*time.Millisecond)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Engine.Embedded.ClusterName = cmp.Or(c.Engine.Embedded.ClusterName, defaultPrefix)
	c.Engine.Embedded.Listen = cmp.Or(c.Engine.Embedded.Listen, defaultEngine)
	if err := errors.Join(c.check(), c.checkExports(), c.Engine.check()); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if err := c.checkFiles(); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

func (c *Config) check() error {
	switch {
	case c.Listen == "" && len(c.Exports) == 0:
		return errors.New("nothing to do: name an address to listen at, or a server to export")
	case c.Listen != "" && !strings.HasPrefix(c.Listen, "unix:"):
		return fmt.Errorf("listen at %q: only local sockets (unix:) can be served; others reach functions by a gateway of their own", c.Listen)
	case len(c.Name) > nameBytesMax || len(c.Host) > 255 || len(c.Zone) > nameBytesMax:
		return fmt.Errorf("names of a gateway and of a zone have at most %d bytes, and those of a host 255", nameBytesMax)
	case !isLabel(c.Name) || !isLabel(c.Host) || c.Zone != "" && !isLabel(c.Zone):
		return fmt.Errorf("name %q, host %q or zone %q has control characters: other gateways would ignore this one", c.Name, c.Host, c.Zone)
	case c.Workers < 0 || c.Workers > wire.GatewayWorkersCeiling:
		return fmt.Errorf("%d workers: limit gateway_workers is 1 to %d", c.Workers, wire.GatewayWorkersCeiling)
	case c.DrainTimeout < 0 || c.DrainTimeout > wire.DrainTimeoutMsCeiling*time.Millisecond:
		return fmt.Errorf("a drain timeout of %v: limit drain_timeout_ms is 0 to %d", c.DrainTimeout, wire.DrainTimeoutMsCeiling)
	case (c.DirectTLS.Certificate == "") != (c.DirectTLS.Key == ""):
		return errors.New("a certificate for direct calls and its key belong together")
	case c.Large > Refuse || c.Direct > DirectCallers:
		return errors.New("Large or Direct is none of the constants")
	case !isPrefix(c.Prefix):
		return fmt.Errorf("prefix %q of subjects: words with dots between them", c.Prefix)
	}
	return nil
}

func (c *Config) checkExports() error {
	names := map[string]bool{}
	for i := range c.Exports {
		e := &c.Exports[i]
		e.Version = cmp.Or(e.Version, defaultVersion)
		switch {
		case !nameForm.MatchString(e.Name) || len(e.Name) > nameBytesMax:
			return fmt.Errorf("export %q: a name has at most %d letters, digits, \"_\" and \"-\" in it", e.Name, nameBytesMax)
		case names[e.Name]:
			return fmt.Errorf("two exports are called %q", e.Name)
		case !strings.HasPrefix(e.Address, "unix:"):
			return fmt.Errorf("export %s of %q: the address of a server on this machine begins with \"unix:\"", e.Name, e.Address)
		case e.Direct != "" && !isDirect(e.Direct):
			return fmt.Errorf("export %s: direct address %q does not have the form tls:host:port", e.Name, e.Direct)
		}
		if err := services.CheckVersion(e.Version); err != nil {
			return fmt.Errorf("export %s: %w", e.Name, err)
		}
		names[e.Name] = true
		for _, pattern := range e.Functions {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("export %s: pattern %q of functions: %w", e.Name, pattern, err)
			}
		}
	}
	if len(names) > wire.MemberServersMax {
		return fmt.Errorf("%d exports: limit member_servers_max is %d", len(names), wire.MemberServersMax)
	}
	return nil
}

func (e *Engine) check() error {
	switch {
	case e.Credentials != "" && e.Nkey != "":
		return errors.New("credentials and an nkey: give one of both")
	case len(e.URLs) == 0 && (e.Credentials != "" || e.Nkey != ""):
		return errors.New("credentials are for an engine that runs elsewhere: give its URL")
	case (e.TLS.Certificate == "") != (e.TLS.Key == "") || (e.Embedded.TLS.Certificate == "") != (e.Embedded.TLS.Key == ""):
		return errors.New("a certificate and its key belong together")
	}
	return nil
}

// admits reports whether a function may be called through the gateway.
func (e *Export) admits(function string) bool { return matchesAny(e.Functions, function) }

// matchesAny reports whether a name matches one of the patterns, or there are none.
func matchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if matches, err := path.Match(pattern, name); matches && err == nil {
			return true
		}
	}
	return len(patterns) == 0
}
