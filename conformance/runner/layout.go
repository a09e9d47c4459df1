package main

import (
	"encoding/binary"
	"fmt"
)

// field is one number of a fixed layout. Offsets and widths are those of
// spec/wire-format.md, read anew here: the runner shares no encoder with the
// implementations it judges, so a misplaced field cannot cancel out.
type field struct {
	name   string
	offset int
	bytes  int
}

type layout struct {
	bytes  int
	magic  string
	fields []field
}

var frameLayout = layout{bytes: 32, fields: []field{
	{"length", 0, 4}, {"type", 4, 1}, {"flags", 5, 1}, {"codec", 6, 1}, {"fds", 7, 1},
	{"call_id", 8, 8}, {"function_id", 16, 4}, {"deadline_ms", 20, 4},
	{"status", 24, 4}, {"extension_bytes", 28, 4},
}}

var helloLayout = layout{bytes: 64, magic: "\x89NCH\r\n\x1a\n", fields: []field{
	{"total_bytes", 8, 4}, {"version_min", 12, 2}, {"version_max", 14, 2},
	{"features_offered", 16, 8}, {"features_required", 24, 8}, {"process_id", 32, 4},
	{"frame_bytes_max", 36, 4}, {"clock_ns", 40, 8}, {"stream_credit_bytes", 48, 4},
	{"reserved_52", 52, 4}, {"reserved_56", 56, 8},
}}

var welcomeLayout = layout{bytes: 64, magic: "\x89NCW\r\n\x1a\n", fields: []field{
	{"total_bytes", 8, 4}, {"version", 12, 2}, {"status", 14, 2},
	{"features", 16, 8}, {"instance", 24, 8}, {"process_id", 32, 4},
	{"frame_bytes_max", 36, 4}, {"clock_ns", 40, 8}, {"stream_credit_bytes", 48, 4},
	{"calls_in_flight_max", 52, 4}, {"schema_hash", 56, 8},
}}

func (l layout) find(name string) (field, bool) {
	for _, f := range l.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// encode writes the numbers given by name; the others stay 0.
func (l layout) encode(numbers map[string]uint64) ([]byte, error) {
	out := make([]byte, l.bytes)
	copy(out, l.magic)
	for name, number := range numbers {
		f, ok := l.find(name)
		if !ok {
			return nil, fmt.Errorf("no field %q", name)
		}
		if f.bytes < 8 && number>>(8*f.bytes) != 0 {
			return nil, fmt.Errorf("%s: %d does not fit in %d bytes", name, number, f.bytes)
		}
		var wide [8]byte
		binary.LittleEndian.PutUint64(wide[:], number)
		copy(out[f.offset:], wide[:f.bytes])
	}
	return out, nil
}

// decode reads every field. Precondition: len(in) >= l.bytes.
func (l layout) decode(in []byte) map[string]uint64 {
	numbers := make(map[string]uint64, len(l.fields))
	for _, f := range l.fields {
		var wide [8]byte
		copy(wide[:f.bytes], in[f.offset:])
		numbers[f.name] = binary.LittleEndian.Uint64(wide[:])
	}
	return numbers
}

// frameTypes holds, by number, the name of a type and the header fields it uses
// beside length, type and call id. All others must be 0.
var frameTypes = []struct {
	name   string
	fields []string
}{
	1:  {"REQUEST", []string{"flags", "codec", "fds", "function_id", "deadline_ms", "status", "extension_bytes"}},
	2:  {"REPLY", []string{"flags", "codec", "fds", "function_id", "extension_bytes"}},
	3:  {"ERROR", []string{"codec", "status"}},
	4:  {"CANCEL", nil},
	5:  {"STREAM DATA", []string{"codec", "fds"}},
	6:  {"STREAM END", nil},
	7:  {"CREDIT", []string{"status"}},
	8:  {"PING", nil},
	9:  {"PONG", nil},
	10: {"RESOLVE", []string{"deadline_ms"}},
	11: {"DRAIN", nil},
	12: {"WAKE", nil},
	13: {"MEMORY", []string{"fds"}},
	14: {"STORE", []string{"deadline_ms"}},
	15: {"RELEASE", nil},
	16: {"ASK", []string{"deadline_ms"}},
}

var codecNames = []string{"raw", "msgpack", "json", "protobuf", "packed"}

func frameTypeName(number uint64) string {
	if number >= 1 && number < uint64(len(frameTypes)) {
		return frameTypes[number].name
	}
	return fmt.Sprint(number)
}

func frameTypeNumber(name string) (uint64, bool) {
	for number, t := range frameTypes {
		if t.name == name && name != "" {
			return uint64(number), true
		}
	}
	return 0, false
}

// extension is one entry of a hello, welcome or frame.
type extension struct {
	number  uint16
	content []byte
}

func appendExtension(out []byte, e extension) []byte {
	out = binary.LittleEndian.AppendUint16(out, e.number)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(e.content)))
	return append(out, e.content...)
}

// parseExtensions reads entries that must fill in exactly.
func parseExtensions(in []byte) ([]extension, error) {
	var out []extension
	for len(in) > 0 {
		if len(in) < 4 {
			return nil, fmt.Errorf("extensions: %d bytes left, an entry needs 4", len(in))
		}
		bytes := int(binary.LittleEndian.Uint16(in[2:]))
		if bytes > len(in)-4 {
			return nil, fmt.Errorf("extensions: an entry of %d bytes, %d are left", bytes, len(in)-4)
		}
		out = append(out, extension{binary.LittleEndian.Uint16(in), in[4 : 4+bytes]})
		in = in[4+bytes:]
	}
	return out, nil
}
