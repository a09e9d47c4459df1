package msgpack

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// ReadAny reads a value of the schema's type any that lies inside depth lists,
// maps or structs. It returns nil, bool, int64, uint64 (only above the largest
// int64), float64, string, []byte, time.Time, []any, map[string]any or, for a
// map with integer keys, map[int64]any. Nothing of it aliases src.
func ReadAny(src []byte, depth int) (any, []byte, error) { return ReadAnyBy(nil, src, depth) }

// ReadAnyBy is ReadAny that counts what the value takes.
func ReadAnyBy(by *Meter, src []byte, depth int) (any, []byte, error) {
	switch msgp.NextType(src) {
	case msgp.NilType:
		return nil, src[1:], nil
	case msgp.BoolType:
		return boxed(ReadBool(src))
	case msgp.IntType:
		return boxed(ReadInt(src, 64))
	case msgp.UintType:
		return readAnyUint(src)
	case msgp.Float32Type, msgp.Float64Type:
		return boxed(ReadFloat(src))
	case msgp.StrType:
		text, rest, err := ReadText(src)
		return boxed(string(text), rest, err)
	case msgp.BinType:
		data, rest, err := ReadBytes(src)
		return boxed(append([]byte{}, data...), rest, err)
	case msgp.ArrayType:
		return readAnyList(by, src, depth)
	case msgp.MapType:
		return readAnyMap(by, src, depth)
	}
	if isTimestamp(src) {
		return boxed(ReadTime(src))
	}
	if IsPacked(src) {
		return readAnyPacked(by, src, depth)
	}
	return nil, src, mismatch(src, "any")
}

// boxed drops the value of a failed read, so that an error comes with nil.
func boxed[T any](value T, rest []byte, err error) (any, []byte, error) {
	if err != nil {
		return nil, rest, err
	}
	return value, rest, nil
}

func readAnyUint(src []byte) (any, []byte, error) {
	value, rest, err := ReadUint(src, 64)
	if err == nil && value <= math.MaxInt64 {
		return int64(value), rest, nil
	}
	return boxed(value, rest, err)
}

func readAnyList(by *Meter, src []byte, depth int) (any, []byte, error) {
	count, rest, err := ReadList(src, depth)
	if err == nil {
		err = by.Take(count+1, anyBytes)
	}
	if err != nil {
		return nil, src, err
	}
	list := make([]any, 0, FirstRoom(count))
	for range count {
		var element any
		if element, rest, err = ReadAnyBy(by, rest, depth+1); err != nil {
			return nil, src, err
		}
		list = append(list, element)
	}
	return list, rest, nil
}

// FirstRoom is how many elements to make room for before the first has been
// read: a sender may claim many and send bad ones.
func FirstRoom(count int) int { return min(count, 64) }

func readAnyMap(by *Meter, src []byte, depth int) (any, []byte, error) {
	count, rest, err := ReadStruct(src, depth)
	if err == nil {
		err = by.TakeTextMap(count)
	}
	if err != nil {
		return nil, src, err
	}
	switch msgp.NextType(rest) {
	case msgp.IntType, msgp.UintType:
		if count > 0 {
			return boxed(readPairs(by, rest, count, depth+1, readIntKey))
		}
	}
	return boxed(readPairs(by, rest, count, depth+1, readTextKey))
}

func readIntKey(src []byte) (int64, []byte, error) { return ReadInt(src, 64) }

func readTextKey(src []byte) (string, []byte, error) {
	text, rest, err := ReadText(src)
	return string(text), rest, err
}

func readPairs[K comparable](by *Meter, src []byte, count, depth int, readKey func([]byte) (K, []byte, error)) (map[K]any, []byte, error) {
	pairs := make(map[K]any, FirstRoom(count))
	for i := range count {
		key, rest, err := readKey(src)
		if err != nil {
			return nil, src, fmt.Errorf("map key: %w", err)
		}
		if pairs[key], src, err = ReadAnyBy(by, rest, depth); err != nil {
			return nil, src, err
		}
		if len(pairs) == i {
			return nil, src, Repeated(key)
		}
	}
	return pairs, src, nil
}

// Repeated is the refusal of a map that has a key twice, of which one value would be lost.
func Repeated(key any) error { return fmt.Errorf("key %.80q is there twice", fmt.Sprint(key)) }

// AppendAny appends a value of one of the types that ReadAny returns, or of any
// other basic type; other appends what is none of these.
func AppendAny(dst []byte, value any, depth int, other Other) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return msgp.AppendNil(dst), nil
	case string:
		return AppendText(dst, v)
	case []byte:
		return msgp.AppendBytes(dst, v), nil
	case time.Time:
		return AppendTime(dst, v), nil
	case []any:
		return appendList(dst, v, depth, other)
	case map[string]any:
		return appendPairs(dst, v, depth, other, AppendText)
	case map[int64]any:
		return appendPairs(dst, v, depth, other, func(dst []byte, key int64) ([]byte, error) {
			return msgp.AppendInt64(dst, key), nil
		})
	}
	if dst, done := appendNumber(dst, value); done {
		return dst, nil
	}
	if other.Append == nil {
		return dst, fmt.Errorf("type %T cannot stand in a value of type any", value)
	}
	return other.Append(dst, value, depth)
}

func appendNumber(dst []byte, value any) (_ []byte, done bool) {
	switch v := value.(type) {
	case bool:
		return msgp.AppendBool(dst, v), true
	case int:
		return msgp.AppendInt64(dst, int64(v)), true
	case int8:
		return msgp.AppendInt64(dst, int64(v)), true
	case int16:
		return msgp.AppendInt64(dst, int64(v)), true
	case int32:
		return msgp.AppendInt64(dst, int64(v)), true
	case int64:
		return msgp.AppendInt64(dst, v), true
	case uint:
		return msgp.AppendUint64(dst, uint64(v)), true
	case uint8:
		return msgp.AppendUint64(dst, uint64(v)), true
	case uint16:
		return msgp.AppendUint64(dst, uint64(v)), true
	case uint32:
		return msgp.AppendUint64(dst, uint64(v)), true
	case uint64:
		return msgp.AppendUint64(dst, v), true
	case float32:
		return msgp.AppendFloat32(dst, v), true
	case float64:
		return msgp.AppendFloat64(dst, v), true
	}
	return dst, false
}

// AppendText appends str and refuses text that is not UTF-8.
func AppendText(dst []byte, text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return dst, ErrUTF8
	}
	return msgp.AppendString(dst, text), nil
}

// AppendTime appends the timestamp extension in its shortest form.
func AppendTime(dst []byte, t time.Time) []byte { return msgp.AppendTimeExt(dst, t) }

// An Other says what AppendAny needs to know of a call. The zero value knows no other types.
type Other struct {
	// Append appends a value of a type that AppendAny does not know.
	Append func(dst []byte, value any, depth int) ([]byte, error)
	// BytesMax is how much may be appended in all; see CheckSize.
	BytesMax int
}

func appendList(dst []byte, list []any, depth int, other Other) ([]byte, error) {
	if err := CheckDepth(depth); err != nil {
		return dst, err
	}
	dst = msgp.AppendArrayHeader(dst, uint32(len(list)))
	for _, element := range list {
		err := CheckSize(dst, other.BytesMax)
		if err != nil {
			return dst, err
		}
		if dst, err = AppendAny(dst, element, depth+1, other); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func appendPairs[K comparable](dst []byte, pairs map[K]any, depth int, other Other, appendKey func([]byte, K) ([]byte, error)) ([]byte, error) {
	if err := CheckDepth(depth); err != nil {
		return dst, err
	}
	dst = msgp.AppendMapHeader(dst, uint32(len(pairs)))
	for key, value := range pairs {
		err := CheckSize(dst, other.BytesMax)
		if err != nil {
			return dst, err
		}
		if dst, err = appendKey(dst, key); err != nil {
			return dst, err
		}
		if dst, err = AppendAny(dst, value, depth+1, other); err != nil {
			return dst, err
		}
	}
	return dst, nil
}
