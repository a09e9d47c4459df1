package config

import (
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/handoff"
	"github.com/nearcall/nearcall/internal/address"
)

// A checker turns a file into a Config and collects all that is wrong with it.
type checker struct {
	path     string
	lines    lines
	problems []error
}

func (c *checker) fail(key, format string, args ...any) { c.failAt(c.lines.of(key), format, args...) }

func (c *checker) failAt(line int, format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf("%s:%d: %s", c.path, line, fmt.Sprintf(format, args...)))
}

func (c *checker) config(f *file) *Config {
	config := &Config{
		Path:     c.path,
		Listens:  c.listens(f.Listen),
		Backends: c.backends(f.Backend),
		Timeouts: c.timeouts(&f.Timeouts),
		Limits:   c.limits(&f.Limits),
		Log:      Log{Handoffs: f.Log.Handoffs},
		Metrics:  c.address("metrics.address", f.Metrics.Address),
		Control:  c.unixAddress("control.address", f.Control.Address),
	}
	config.Routes = c.routes(f.Route, f.Backend)
	c.usedTwice(config)
	return config
}

func (c *checker) listens(all []fileListen) []Listen {
	if len(all) == 0 {
		c.fail("", `there is no [[listen]]: write one with an address, as address = "tcp:0.0.0.0:80"`)
	}
	var listens []Listen
	named := map[string]Listen{}
	for i, l := range all {
		at := fmt.Sprintf("listen[%d]", i)
		listen := Listen{Name: l.Name, Protocol: c.protocol(at+".protocol", l.Protocol), DeferAccept: l.DeferAccept, ProxyProtocol: l.ProxyProtocol}
		listen.Address = c.needAddress(at+".address", l.Address, `"tcp:0.0.0.0:80" or "unix:/run/front.sock"`)
		if listen.Name == "" {
			listen.Name = listen.Address
		}
		if other, twice := named[listen.Name]; twice && (l.Name != "" || other.Address != listen.Address) {
			c.fail(at, "another [[listen]] has the name %q: write a name of its own", listen.Name)
		}
		if l.DeferAccept && strings.HasPrefix(l.Address, "unix:") {
			c.fail(at+".defer_accept", "defer_accept is of TCP: remove it for %s", l.Address)
		}
		named[listen.Name] = listen
		listens = append(listens, listen)
	}
	return listens
}

func (c *checker) protocol(key, text string) Protocol {
	switch p := Protocol(text); p {
	case "":
		return ProtocolAny
	case ProtocolAny, ProtocolHTTP, ProtocolTLS:
		return p
	}
	c.fail(key, `protocol is %q: write "http", "tls", or "any" to go by the first byte`, text)
	return ProtocolAny
}

func (c *checker) backends(all map[string]fileBackend) []Backend {
	var backends []Backend
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, at := all[name], "backend."+name
		backend := Backend{Name: name, Users: c.users(at+".users", b.Users), Otherwise: c.otherwise(at+".otherwise", b.Otherwise)}
		backend.Wait = c.milliseconds(at+".wait_ms", b.WaitMs, 0, waitMsDefault, hourMs)
		if len(b.Sockets) == 0 {
			c.fail(at+".sockets", `backend %q has no sockets: write sockets = ["unix:/run/%s.sock"]`, name, name)
		}
		for _, socket := range b.Sockets {
			backend.Sockets = append(backend.Sockets, c.unixAddress(at+".sockets", socket))
		}
		backend.Weights = c.weights(at+".weights", b.Weights, len(b.Sockets))
		backends = append(backends, backend)
	}
	return backends
}

// weightMost is far more than one process does of another's work.
const weightMost = 1000

func (c *checker) weights(key string, given []int64, sockets int) []int {
	if given != nil && len(given) != sockets {
		c.fail(key, "there are %d weights for %d sockets: write one for each", len(given), sockets)
	}
	var weights []int
	for _, weight := range given {
		if weight < 1 || weight > weightMost {
			c.fail(key, "a weight is %d: write 1 to %d", weight, weightMost)
		}
		weights = append(weights, int(weight))
	}
	return weights
}

func (c *checker) otherwise(key, text string) Otherwise {
	switch o := Otherwise(text); o {
	case "":
		return OtherwiseAnswer
	case OtherwiseAnswer, OtherwiseClose:
		return o
	}
	c.fail(key, `otherwise is %q: write "503" to answer, or "close"`, text)
	return OtherwiseAnswer
}

// users takes names and numbers.
func (c *checker) users(key string, names []string) []uint32 {
	var users []uint32
	for _, name := range names {
		id := name
		if found, err := user.Lookup(name); err == nil {
			id = found.Uid
		}
		number, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			c.fail(key, "there is no user %q on this machine: write the name or the number of one", name)
			continue
		}
		users = append(users, uint32(number))
	}
	return users
}

func (c *checker) needAddress(key, text, example string) string {
	if text == "" {
		c.fail(key, "the address is missing: write address = %s", example)
		return ""
	}
	return c.address(key, text)
}

func (c *checker) address(key, text string) string {
	if text == "" {
		return ""
	}
	parsed, err := address.Parse(text, false)
	switch {
	case err != nil:
		c.fail(key, "%s", strings.TrimPrefix(err.Error(), "nearcall: "))
	case parsed.Network == "tls":
		c.fail(key, "address %q: the front passes connections on as they are, and whoever gets them speaks TLS itself: write tcp: in place of tls:", text)
	case strings.Contains(text, "?"):
		c.fail(key, "address %q: parameters are for calls; remove what follows the ?", text)
	default:
		if _, err := socketOf(parsed); err != nil {
			c.fail(key, "address %q: there is no port %q: write a number from 1 to 65535", text, text[strings.LastIndexByte(text, ':')+1:])
		}
		return parsed.String()
	}
	return text
}

func (c *checker) unixAddress(key, text string) string {
	if strings.HasPrefix(text, "tcp:") {
		c.fail(key, "address %q: connections are handed over through a local socket; write unix:/path", text)
	}
	return c.address(key, text)
}

// What is taken where the file says nothing, and the most it may say.
const (
	waitMsDefault     = 5_000
	lingerMsDefault   = 1_000
	healthMsDefault   = 200
	drainMsDefault    = 30_000
	handBackMsDefault = 5_000
	hourMs            = 3_600_000

	heldDefault          = 8192
	heldPerClientDefault = 1024
	heldCeiling          = 1 << 20
	headBytesDefault     = 65_536
	headBytesCeiling     = 1 << 20
	headBytesLeast       = 1024
)

func (c *checker) timeouts(f *fileTimeouts) Timeouts {
	return Timeouts{
		Peek:     c.milliseconds("timeouts.peek_ms", f.PeekMs, 1, handoff.PeekTimeout.Milliseconds(), handoff.PeekTimeoutMax.Milliseconds()),
		Linger:   c.milliseconds("timeouts.linger_ms", f.LingerMs, 1, lingerMsDefault, hourMs),
		Health:   c.milliseconds("timeouts.health_ms", f.HealthMs, 1, healthMsDefault, hourMs),
		Drain:    c.milliseconds("timeouts.drain_ms", f.DrainMs, 0, drainMsDefault, hourMs),
		HandBack: c.milliseconds("timeouts.hand_back_ms", f.HandBackMs, 0, handBackMsDefault, hourMs),
	}
}

func (c *checker) limits(f *fileLimits) Limits {
	return Limits{
		HeldMax:          int(c.number("limits.held_max", f.HeldMax, 1, heldDefault, heldCeiling)),
		HeldPerClientMax: int(c.number("limits.held_per_client_max", f.HeldPerClientMax, 1, heldPerClientDefault, heldCeiling)),
		HeadBytesMax:     int(c.number("limits.head_bytes_max", f.HeadBytesMax, headBytesLeast, handoff.PeekBytesMax, handoff.PeekBytesMax)),
	}
}

func (c *checker) milliseconds(key string, value *int64, least, otherwise, most int64) time.Duration {
	return time.Duration(c.number(key, value, least, otherwise, most)) * time.Millisecond
}

func (c *checker) number(key string, value *int64, least, otherwise, most int64) int64 {
	if value == nil {
		return otherwise
	}
	if *value < least || *value > most {
		c.fail(key, "%s is %d: write %d to %d", key[strings.LastIndexByte(key, '.')+1:], *value, least, most)
		return otherwise
	}
	return *value
}
