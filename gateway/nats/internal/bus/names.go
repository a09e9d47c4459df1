package bus

import (
	"crypto/rand"
	"encoding/base32"
	"strconv"
	"strings"
)

// Subjects have the form PREFIX.b.INSTANCE.STREAM. Instances and streams are 16 random bytes in
// base 32. The engine answers to PREFIX.b.INSTANCE.STREAM.OFFSET if nobody listens.

var base = base32.StdEncoding.WithPadding(base32.NoPadding)

// idChars is the length of an instance or stream.
var idChars = base.EncodedLen(16)

func newID() string {
	var number [16]byte
	rand.Read(number[:])
	return base.EncodeToString(number[:])
}

// isID reports whether text may be an instance or a stream.
func isID(text string) bool {
	if len(text) != idChars {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// subjects are those of a prefix.
type subjects string

func subjectsOf(prefix string) subjects { return subjects(prefix + ".b.") }

// of returns the beginning of the subjects of an instance.
func (s subjects) of(instance string) string { return string(s) + instance + "." }

// A place is where a message was sent: to a stream, or to what the engine answers about one.
type place struct {
	stream string
	about  string // the offset, or "" if it is the stream itself
}

// parsePlace reads what follows the beginning of an instance's subjects.
func parsePlace(rest string) (p place, ok bool) {
	p.stream, p.about, _ = strings.Cut(rest, ".")
	return p, isID(p.stream)
}

// offset returns the offset that the engine answers about. known is false for messages that
// are not about bytes.
func (p place) offset() (offset uint64, known bool) {
	offset, err := strconv.ParseUint(p.about, 10, 64)
	return offset, err == nil
}

// notAboutBytes stands in place of an offset in what the engine answers about other messages
// than DATA.
const notAboutBytes = "x"

// An origin is where the sender of a message has its end of the stream.
type origin struct{ instance, stream string }

// originOf returns the origin of a message by the subject at which its sender waits for what the
// engine answers.
func (s subjects) originOf(reply string) (o origin, ok bool) {
	rest, ours := strings.CutPrefix(reply, string(s))
	if !ours {
		return origin{}, false
	}
	o.instance, rest, _ = strings.Cut(rest, ".")
	p, ok := parsePlace(rest)
	o.stream = p.stream
	return o, ok && p.about != "" && isID(o.instance)
}

// at returns the subject of an origin.
func (s subjects) at(o origin) string { return s.of(o.instance) + o.stream }
