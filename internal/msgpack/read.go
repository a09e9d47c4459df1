// Package msgpack reads and writes single MessagePack values the way
// spec/schema.md wants them: every accepted format, range checks, nesting
// bounded by limit nesting_depth_max, nothing allocated for what a header only
// claims, and errors in the schema's words. The formats themselves are left to
// github.com/tinylib/msgp.
//
// It knows no Go types beyond the basic ones and no schema: those are codec's.
package msgpack

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/tinylib/msgp/msgp"
)

// An Error is one of the fixed refusals below.
type Error string

// Error returns the refusal's text.
func (e Error) Error() string { return string(e) }

// Refusals that need no value in their text.
const (
	ErrShort = Error("the data ends within a value")
	ErrUTF8  = Error("the string is not valid UTF-8; use bytes for other data")
)

// ErrTooLarge is the refusal of values that take more bytes than any frame may have.
var ErrTooLarge = fmt.Errorf("what the value has takes more than %d bytes when it is encoded, counted as often as it is in there (limit frame_bytes_max, at most), or than limit value_bytes_max", wire.FrameBytesMaxCeiling)

// CheckSize refuses to append more to what is too large already: for any frame, or for the call if
// that may have more than a frame. Parts that a value shares are encoded as often as they are
// met, so a small value may otherwise have no end.
func CheckSize(appended []byte, bytesMax int) error {
	if len(appended) > max(bytesMax, wire.FrameBytesMaxCeiling) {
		return ErrTooLarge
	}
	return nil
}

// CheckDepth refuses to open one more list, map or struct inside depth others.
func CheckDepth(depth int) error {
	if depth >= wire.NestingDepthMax {
		return errTooDeep()
	}
	return nil
}

func errTooDeep() error {
	return fmt.Errorf("lists, maps and structs are nested deeper than %d levels (limit nesting_depth_max, which is fixed)", wire.NestingDepthMax)
}

// ReadInt reads an integer of any format that fits a signed type of that many
// bits.
func ReadInt(src []byte, bits int) (int64, []byte, error) {
	if len(src) > 0 && int8(src[0]) >= leastInOneByte {
		return int64(int8(src[0])), src[1:], nil
	}
	return readLongInt(src, bits)
}

// ReadInt64 is ReadInt for 64 bits.
func ReadInt64(src []byte) (int64, []byte, error) {
	if len(src) > 0 && int8(src[0]) >= leastInOneByte {
		return int64(int8(src[0])), src[1:], nil
	}
	return readLongInt(src, 64)
}

// leastInOneByte is the least integer that is one byte, which is that integer as an int8.
// The greatest is the greatest int8.
const leastInOneByte = -32

func readLongInt(src []byte, bits int) (int64, []byte, error) {
	value, rest, err := msgp.ReadInt64Bytes(src)
	if high := value >> (bits - 1); err != nil || high != 0 && high != -1 {
		return 0, src, integerError(src, fmt.Sprintf("int%d", bits))
	}
	return value, rest, nil
}

// ReadUint reads an integer of any format that fits an unsigned type of that
// many bits.
func ReadUint(src []byte, bits int) (uint64, []byte, error) {
	if len(src) > 0 && int8(src[0]) >= 0 {
		return uint64(src[0]), src[1:], nil
	}
	return readLongUint(src, bits)
}

func readLongUint(src []byte, bits int) (uint64, []byte, error) {
	value, rest, err := msgp.ReadUint64Bytes(src)
	if err != nil || value>>bits != 0 {
		return 0, src, integerError(src, fmt.Sprintf("uint%d", bits))
	}
	return value, rest, nil
}

func integerError(src []byte, want string) error {
	if value, _, err := msgp.ReadInt64Bytes(src); err == nil {
		return fmt.Errorf("%d does not fit %s", value, want)
	}
	if value, _, err := msgp.ReadUint64Bytes(src); err == nil {
		return fmt.Errorf("%d does not fit %s", value, want)
	}
	return mismatch(src, want)
}

// ReadFloat reads a float of either format, or an integer that a float64 is.
func ReadFloat(src []byte) (float64, []byte, error) {
	if value, rest, err := msgp.ReadFloat64Bytes(src); err == nil {
		return value, rest, nil
	}
	if value, rest, err := msgp.ReadInt64Bytes(src); err == nil {
		float := float64(value)
		return float, rest, unlessRounded(float < 1<<63 && int64(float) == value, value, float)
	}
	if value, rest, err := msgp.ReadUint64Bytes(src); err == nil {
		float := float64(value)
		return float, rest, unlessRounded(float < 1<<64 && uint64(float) == value, value, float)
	}
	return 0, src, mismatch(src, "float")
}

// unlessRounded refuses an integer that lies between two floats. The largest of a type
// are rounded to what the type has not.
func unlessRounded[T int64 | uint64](isExact bool, value T, float float64) error {
	if isExact {
		return nil
	}
	return fmt.Errorf("%d is no float64; the nearest is %.0f", value, float)
}

// ReadBool reads true or false.
func ReadBool(src []byte) (bool, []byte, error) {
	value, rest, err := msgp.ReadBoolBytes(src)
	if err != nil {
		return false, src, mismatch(src, "bool")
	}
	return value, rest, nil
}

// The headers of short text, lists and maps are one byte, with the length in its last bits.
// Nearly all values have such headers, which are therefore read here.
const (
	shortText, shortTextBytesMax = 0xA0, 0x1F
	shortList, shortMap          = 0x90, 0x80
	shortCountMax                = 0x0F
)

// ReadText reads UTF-8 text; what it returns aliases src.
func ReadText(src []byte) (text, rest []byte, err error) {
	if len(src) > 0 && src[0]&^shortTextBytesMax == shortText && len(src) > int(src[0]&shortTextBytesMax) {
		bytes := int(src[0] & shortTextBytesMax)
		text, rest = src[1:1+bytes], src[1+bytes:]
	} else if text, rest, err = msgp.ReadStringZC(src); err != nil {
		return nil, src, mismatch(src, "string")
	}
	if !utf8.Valid(text) {
		return nil, src, ErrUTF8
	}
	return text, rest, nil
}

// ReadBytes reads bin or str; what it returns aliases src, and its capacity
// ends with it, so that appending to it cannot change src.
func ReadBytes(src []byte) (data, rest []byte, err error) {
	data, rest, err = msgp.ReadBytesZC(src)
	if err != nil {
		data, rest, err = msgp.ReadStringZC(src)
	}
	if err != nil {
		return nil, src, mismatch(src, "bytes")
	}
	return data[:len(data):len(data)], rest, nil
}

// ReadTime reads the timestamp extension in any of its lengths. The time is in
// UTC.
func ReadTime(src []byte) (time.Time, []byte, error) {
	if !isTimestamp(src) {
		return time.Time{}, src, mismatch(src, "time")
	}
	value, rest, err := msgp.ReadTimeUTCBytes(src)
	if err == msgp.ErrShortBytes {
		return time.Time{}, src, ErrShort
	}
	if err != nil {
		return time.Time{}, src, fmt.Errorf("the timestamp is malformed: %w", err)
	}
	return value, rest, nil
}

// isTimestamp holds where the official extension type -1 stands. msgp takes an
// older type of its own for a time as well, which the schema does not know, and
// its NextType looks for the type of a fixed extension in the wrong place.
func isTimestamp(src []byte) bool {
	at := extensionTypeAt(src)
	return at > 0 && len(src) > at && int8(src[at]) == msgp.MsgTimeExtension
}

// ReadList reads the header of an array whose elements can still be in src: a
// count that is only a claim is refused here. nil is an empty list.
func ReadList(src []byte, depth int) (count int, rest []byte, err error) {
	if len(src) > 0 && src[0]&^shortCountMax == shortList && depth < wire.NestingDepthMax && int(src[0]&shortCountMax) < len(src) {
		return int(src[0] & shortCountMax), src[1:], nil
	}
	return readLongList(src, depth)
}

// CutShortList returns what follows the header of an array of count elements in its shortest
// form, and whether src begins with that. count is at most 15.
func CutShortList(src []byte, count byte) (rest []byte, found bool) {
	if len(src) > 0 && src[0] == shortList|count {
		return src[1:], true
	}
	return src, false
}

func readLongList(src []byte, depth int) (count int, rest []byte, err error) {
	if msgp.IsNil(src) {
		return 0, src[1:], nil
	}
	size, rest, err := msgp.ReadArrayHeaderBytes(src)
	return checkHeader(src, rest, "list", uint64(size), depth, err)
}

// ReadMap is ReadList for a map; count is the number of pairs.
func ReadMap(src []byte, depth int) (count int, rest []byte, err error) {
	if msgp.IsNil(src) {
		return 0, src[1:], nil
	}
	return ReadStruct(src, depth)
}

// ReadStruct is ReadMap for a struct, which nil cannot stand for.
func ReadStruct(src []byte, depth int) (count int, rest []byte, err error) {
	if len(src) > 0 && src[0]&^shortCountMax == shortMap && depth < wire.NestingDepthMax && 2*int(src[0]&shortCountMax) < len(src) {
		return int(src[0] & shortCountMax), src[1:], nil
	}
	return readLongStruct(src, depth)
}

func readLongStruct(src []byte, depth int) (count int, rest []byte, err error) {
	size, rest, err := msgp.ReadMapHeaderBytes(src)
	count, rest, err = checkHeader(src, rest, "map", 2*uint64(size), depth, err)
	return count / 2, rest, err
}

func checkHeader(src, rest []byte, want string, values uint64, depth int, err error) (int, []byte, error) {
	if err != nil {
		return 0, src, mismatch(src, want)
	}
	if err := CheckDepth(depth); err != nil {
		return 0, src, err
	}
	if values > uint64(len(rest)) {
		return 0, src, ErrShort
	}
	return int(values), rest, nil
}

// mismatch explains why the value at src is not of the type that was wanted.
func mismatch(src []byte, want string) error {
	if len(src) == 0 {
		return ErrShort
	}
	if src[0] == 0xC1 {
		return Error("byte 0xC1 begins no MessagePack value")
	}
	came := kindOf(src)
	if came == want {
		return ErrShort
	}
	if came != "list" && came != "map" {
		if _, err := msgp.Skip(src); err == msgp.ErrShortBytes {
			return ErrShort
		}
	}
	return fmt.Errorf("%s came where %s is expected", came, want)
}

// kindOf names the value at src in the schema's words.
func kindOf(src []byte) string {
	switch kind := msgp.NextType(src); kind {
	case msgp.StrType:
		return "string"
	case msgp.BinType:
		return "bytes"
	case msgp.ArrayType:
		return "list"
	case msgp.MapType:
		return "map"
	case msgp.IntType, msgp.UintType:
		return "integer"
	case msgp.Float32Type, msgp.Float64Type:
		return "float"
	case msgp.BoolType, msgp.NilType:
		return kind.String()
	}
	switch {
	case isTimestamp(src):
		return "time"
	case isDescriptor(src):
		return "descriptor"
	case IsPacked(src):
		return "packed list"
	}
	return "extension"
}
