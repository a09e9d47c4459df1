package address

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/spin"
)

// A parameter is what may follow the question mark of addresses with some schemes.
type parameter struct {
	key     string
	schemes []string
	// values says in words what set takes; set reports whether it takes a value.
	values string
	set    func(a *Address, value string) bool
}

var (
	local  = []string{"unix"}
	remote = []string{"tcp", "tls"}
	plain  = []string{"tcp"}
	secure = []string{"tls"}
)

// parameters are all that there are.
var parameters = []parameter{
	{"shm", local, "auto or off", oneOf(func(a *Address, off bool) { a.SharedMemoryOff = off }, map[string]bool{"auto": false, "off": true})},
	{"spin", local, "auto, off or dedicated", oneOf(func(a *Address, mode spin.Mode) { a.Spin = mode },
		map[string]spin.Mode{"auto": spin.Auto, "off": spin.Off, "dedicated": spin.Dedicated})},
	{"silence", remote, "off, or milliseconds from 100 to 300000", setSilence},
	{"plain", plain, "warn, refuse or quiet", oneOf(func(a *Address, p Plain) { a.Plain = p },
		map[string]Plain{"warn": PlainWarned, "refuse": PlainRefused, "quiet": PlainQuiet})},
	{"ca", secure, "the path of a file", textOf(func(a *Address) *string { return &a.TLS.CA })},
	{"cert", secure, "the path of a file", textOf(func(a *Address) *string { return &a.TLS.Cert })},
	{"key", secure, "the path of a file", textOf(func(a *Address) *string { return &a.TLS.Key })},
	{"name", secure, "the name of a host", textOf(func(a *Address) *string { return &a.TLS.Name })},
}

// oneOf makes a function that takes the values of a list.
func oneOf[T any](set func(*Address, T), values map[string]T) func(*Address, string) bool {
	return func(a *Address, value string) bool {
		known, found := values[value]
		if found {
			set(a, known)
		}
		return found
	}
}

// textOf makes a function that takes any text.
func textOf(field func(*Address) *string) func(*Address, string) bool {
	return func(a *Address, value string) bool {
		*field(a) = value
		return value != "" && strings.IndexByte(value, 0) < 0
	}
}

func setSilence(a *Address, value string) bool {
	if value == "off" {
		a.Silence = SilenceOff
		return true
	}
	milliseconds, err := strconv.ParseUint(value, 10, 32)
	a.Silence = time.Duration(milliseconds) * time.Millisecond
	return err == nil && a.Silence >= SilenceMin && a.Silence <= SilenceMax
}

// setParameters applies what follows the question mark.
func (a *Address) setParameters(text string) error {
	if text == "" || a.Network == "embed" {
		return nil
	}
	for each := range strings.SplitSeq(text, "&") {
		key, value, _ := strings.Cut(each, "=")
		found := slices.IndexFunc(parameters, func(p parameter) bool { return p.key == key && slices.Contains(p.schemes, a.Network) })
		if found < 0 {
			return fail(a.text, "unknown parameter %q: %s", each, known(a.Network))
		}
		if p := &parameters[found]; !p.set(a, value) {
			return fail(a.text, "parameter %q: %s is %s", each, p.key, p.values)
		}
	}
	return nil
}

// known says which parameters addresses with a scheme may have.
func known(scheme string) string {
	var keys []string
	for _, p := range parameters {
		if slices.Contains(p.schemes, scheme) {
			keys = append(keys, p.key)
		}
	}
	if len(keys) == 0 {
		return "no scheme " + scheme + " is known"
	}
	last := len(keys) - 1
	return scheme + ": addresses may have " + strings.Join(keys[:last], ", ") + " and " + keys[last]
}
