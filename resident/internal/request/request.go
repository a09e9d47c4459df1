// Package request encodes and decodes what a launcher and a resident say to each
// other: spec/resident.md. It does no input or output.
package request

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/internal/wire"
)

// HeaderBytes is the length of what comes first.
const HeaderBytes = 48

// Descriptors come with a request to run: standard input, output and error, and
// the directory.
const Descriptors = 4

const (
	magic   = "\x8bNCR\r\n\x1a\n"
	version = 1
)

// A Kind says what is asked for.
type Kind uint16

// The kinds of requests.
const (
	Run    Kind = 1
	Status Kind = 2
	Stop   Kind = 3
)

var (
	// ErrMalformed is what breaks the rules; the connection ends.
	ErrMalformed = errors.New("not a request of a launcher")
	// ErrVersion is a request that is none of this version's.
	ErrVersion = errors.New("the launcher's request is of another version")
)

// A Header is the fixed part of a request.
type Header struct {
	Bytes         int // with the header's own
	Kind          Kind
	ProcessID     uint32
	Umask         uint32
	Rows, Columns uint16 // of the terminal, 0: none
	Keyring       uint32 // of the session; 0: it has nothing but its user's own
	arguments     int
	variables     int
}

// A Request is what a launcher asks for. Its strings share one piece of memory.
type Request struct {
	Header
	Directory string
	Arguments []string // with argument 0
	Variables []string
}

// Ours tells by the first byte of a connection whether a launcher sends it.
func Ours(first byte) bool { return first == magic[0] }

// ParseHeader decodes the first HeaderBytes bytes.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderBytes || string(b[:len(magic)]) != magic {
		return Header{}, ErrMalformed
	}
	if v := binary.LittleEndian.Uint16(b[12:]); v != version {
		return Header{}, fmt.Errorf("%w: %d and not %d", ErrVersion, v, version)
	}
	total := binary.LittleEndian.Uint32(b[8:])
	if total < HeaderBytes || total > wire.ResidentRequestBytesMax {
		return Header{}, fmt.Errorf("%w: it has %d bytes", ErrMalformed, total)
	}
	h := Header{
		Bytes:     int(total),
		Kind:      Kind(binary.LittleEndian.Uint16(b[14:])),
		ProcessID: binary.LittleEndian.Uint32(b[16:]),
		Umask:     binary.LittleEndian.Uint32(b[20:]),
		Rows:      binary.LittleEndian.Uint16(b[24:]),
		Columns:   binary.LittleEndian.Uint16(b[26:]),
		Keyring:   binary.LittleEndian.Uint32(b[36:]),
	}
	return h, h.count(binary.LittleEndian.Uint32(b[28:]), binary.LittleEndian.Uint32(b[32:]))
}

// count checks the numbers of arguments and variables: each takes a byte at least,
// so nobody makes us hold more than was sent.
func (h *Header) count(arguments, variables uint32) error {
	switch h.Kind {
	case Run:
		body := uint64(h.Bytes - HeaderBytes)
		if arguments == 0 || uint64(arguments)+uint64(variables)+1 > body || h.Umask > 0o777 {
			return fmt.Errorf("%w: %d arguments and %d variables in %d bytes", ErrMalformed, arguments, variables, body)
		}
	case Status, Stop:
		if arguments != 0 || variables != 0 || h.Bytes != HeaderBytes {
			return fmt.Errorf("%w: a request of this kind has nothing else", ErrMalformed)
		}
	default:
		return fmt.Errorf("%w: it is of kind %d", ErrMalformed, h.Kind)
	}
	h.arguments, h.variables = int(arguments), int(variables)
	return nil
}

// ParseBody decodes what follows the header: all of it.
func (h Header) ParseBody(b []byte) (Request, error) {
	r := Request{Header: h}
	if len(b) != h.Bytes-HeaderBytes {
		return r, ErrMalformed
	}
	if h.Kind != Run {
		return r, nil
	}
	text := texts{rest: string(b)}
	r.Directory = text.next()
	r.Arguments = text.take(h.arguments)
	r.Variables = text.take(h.variables)
	return r, text.end()
}

// Append adds the request's bytes to b. Bytes and the counts are its own affair.
func (r Request) Append(b []byte) ([]byte, error) {
	start := len(b)
	b = append(b, magic...)
	b = append(b, make([]byte, HeaderBytes-len(magic))...)
	if r.Kind == Run {
		for _, texts := range [][]string{{r.Directory}, r.Arguments, r.Variables} {
			for _, s := range texts {
				if strings.IndexByte(s, 0) >= 0 {
					return b[:start], fmt.Errorf("%w: a NUL byte in %q", ErrMalformed, s)
				}
				b = append(append(b, s...), 0)
			}
		}
	}
	total := len(b) - start
	if total > wire.ResidentRequestBytesMax {
		return b[:start], fmt.Errorf("%w: it would have %d bytes, and %d are the limit", ErrMalformed, total, wire.ResidentRequestBytesMax)
	}
	header := b[start:]
	binary.LittleEndian.PutUint32(header[8:], uint32(total))
	binary.LittleEndian.PutUint16(header[12:], version)
	binary.LittleEndian.PutUint16(header[14:], uint16(r.Kind))
	binary.LittleEndian.PutUint32(header[16:], r.ProcessID)
	binary.LittleEndian.PutUint32(header[20:], r.Umask)
	binary.LittleEndian.PutUint16(header[24:], r.Rows)
	binary.LittleEndian.PutUint16(header[26:], r.Columns)
	binary.LittleEndian.PutUint32(header[28:], uint32(len(r.Arguments)))
	binary.LittleEndian.PutUint32(header[32:], uint32(len(r.Variables)))
	binary.LittleEndian.PutUint32(header[36:], r.Keyring)
	return b, nil
}

// texts are strings that end with a NUL byte each.
type texts struct {
	rest   string
	broken bool
}

func (t *texts) next() string {
	s, rest, found := strings.Cut(t.rest, "\x00")
	if !found {
		t.broken = true
		return ""
	}
	t.rest = rest
	return s
}

func (t *texts) take(count int) []string {
	taken := make([]string, 0, count)
	for range count {
		taken = append(taken, t.next())
	}
	return taken
}

func (t *texts) end() error {
	if t.broken || t.rest != "" {
		return fmt.Errorf("%w: its texts and their number differ", ErrMalformed)
	}
	return nil
}
