package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/wire"
)

// memberVersion is the form of announcements. A gateway ignores members of later forms that it does
// not know.
const memberVersion = 1

// directBytesMax bounds an address that is told to callers.
const directBytesMax = 1024

// A serverState says whether a gateway, or a server that it exports, takes calls.
type serverState string

const (
	serverUp       serverState = "up"
	serverDraining serverState = "draining"
	serverDown     serverState = "down"
)

// known returns the state, or that which others are to be taken for. They may be any text, which
// nobody should be shown.
func (s serverState) known() serverState {
	if s == serverUp || s == serverDraining {
		return s
	}
	return serverDown
}

// A memberDocument is what a gateway announces: spec/gateway.md describes it.
type memberDocument struct {
	Version    int              `json:"v"`
	Instance   string           `json:"instance"`
	Gateway    string           `json:"gateway"`
	Host       string           `json:"host"`
	Zone       string           `json:"zone,omitempty"`
	UptimeMs   int64            `json:"up_ms"`
	IntervalMs int64            `json:"interval_ms"`
	State      serverState      `json:"state"`
	Servers    []serverDocument `json:"servers"`
}

// A serverDocument is what a gateway announces of a server that it exports.
type serverDocument struct {
	Name string `json:"name"`
	// Instance is the number in the server's welcome, in 16 hexadecimal digits.
	Instance instanceNumber `json:"instance"`
	State    serverState    `json:"state"`
	// Schema is the hash of the server's schema document.
	Schema string `json:"schema"`
	// Direct is the address at which it can be reached without the engine, or "".
	Direct string `json:"direct,omitempty"`
}

// An instanceNumber tells processes of servers apart. JSON has it as text, because many programs
// read numbers only up to 2^53.
type instanceNumber uint64

// MarshalText implements encoding.TextMarshaler.
func (n instanceNumber) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%016x", uint64(n)), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *instanceNumber) UnmarshalText(text []byte) error {
	if len(text) != 16 {
		return fmt.Errorf("an instance of %d digits", len(text))
	}
	number, err := strconv.ParseUint(string(text), 16, 64)
	*n = instanceNumber(number)
	return err
}

func (n instanceNumber) String() string { return fmt.Sprintf("%016x", uint64(n)) }

// parseMember reads an announcement, which may come from anybody.
func parseMember(text []byte) (*memberDocument, error) {
	if len(text) > wire.MemberBytesMax {
		return nil, fmt.Errorf("%d bytes (limit member_bytes_max is %d)", len(text), wire.MemberBytesMax)
	}
	d := &memberDocument{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	return d, d.check()
}

func (d *memberDocument) check() error {
	switch {
	case d.Version < memberVersion:
		return fmt.Errorf("version %d", d.Version)
	case !isInstance(d.Instance):
		return fmt.Errorf("instance %.40q", d.Instance)
	case !isLabel(d.Gateway) || !isLabel(d.Host) || d.Zone != "" && !isLabel(d.Zone):
		return fmt.Errorf("name, host or zone of %.40q", d.Gateway)
	case d.IntervalMs < 0 || d.UptimeMs < 0:
		return fmt.Errorf("a time below 0")
	case len(d.Servers) > wire.MemberServersMax:
		return fmt.Errorf("%d servers (limit member_servers_max is %d)", len(d.Servers), wire.MemberServersMax)
	}
	d.State = d.State.known()
	names := map[string]bool{}
	for i := range d.Servers {
		s := &d.Servers[i]
		s.State = s.State.known()
		if !nameForm.MatchString(s.Name) || len(s.Name) > nameBytesMax || names[s.Name] || !isHash(s.Schema) && s.State == serverUp || len(s.Direct) > directBytesMax {
			return fmt.Errorf("server %.40q", s.Name)
		}
		names[s.Name] = true
	}
	return nil
}

// isInstance reports whether a text can be the instance of a hub: 16 bytes in base 32.
func isInstance(text string) bool {
	return len(text) == 26 && !bytes.ContainsFunc([]byte(text), func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') })
}

// isHash reports whether a text can be the hash of a schema.
func isHash(text string) bool {
	return len(text) == 64 && !bytes.ContainsFunc([]byte(text), func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// isLabel reports whether a text can be shown in logs.
func isLabel(text string) bool {
	return text != "" && len(text) <= 255 && utf8.ValidString(text) && !bytes.ContainsFunc([]byte(text), unicode.IsControl)
}
