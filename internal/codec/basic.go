package codec

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/tinylib/msgp/msgp"
)

// basicCodec returns the codec of a type that can be used without reflection, or nil
// for any other type.
func basicCodec[T any](options Option) any {
	switch any((*T)(nil)).(type) {
	case *int:
		return signedCodec[int]()
	case *int8:
		return signedCodec[int8]()
	case *int16:
		return signedCodec[int16]()
	case *int32:
		return signedCodec[int32]()
	case *int64:
		return signedCodec[int64]()
	case *time.Duration:
		return signedCodec[time.Duration]()
	case *uint:
		return unsignedCodec[uint]()
	case *uint8:
		return unsignedCodec[uint8]()
	case *uint16:
		return unsignedCodec[uint16]()
	case *uint32:
		return unsignedCodec[uint32]()
	case *uint64:
		return unsignedCodec[uint64]()
	case *bool:
		return newCodec(appendBool, msgpack.ReadBool)
	case *float32:
		return newCodec(msgp.AppendFloat32, readFloat32)
	case *float64:
		return newCodec(msgp.AppendFloat64, msgpack.ReadFloat)
	case *time.Time:
		return newCodec(msgpack.AppendTime, msgpack.ReadTime)
	case *string:
		return &Codec[string]{append: appendText, decode: decodeWith(readString)}
	case *[]byte:
		return newCodec(msgp.AppendBytes, bytesReader(options))
	}
	return nil
}

// newCodec makes a codec from an append function that cannot fail and a read function.
func newCodec[T any](add func([]byte, T) []byte, read func([]byte) (T, []byte, error)) *Codec[T] {
	return &Codec[T]{
		append: func(dst []byte, value *T) ([]byte, error) { return add(dst, *value), nil },
		decode: decodeWith(read),
	}
}

func decodeWith[T any](read func([]byte) (T, []byte, error)) func([]byte, *T) ([]byte, error) {
	return func(src []byte, value *T) (rest []byte, err error) {
		*value, rest, err = read(src)
		return rest, err
	}
}

func signedCodec[T int | int8 | int16 | int32 | int64 | time.Duration]() *Codec[T] {
	bits := reflect.TypeFor[T]().Bits()
	return newCodec(
		func(dst []byte, value T) []byte { return msgp.AppendInt64(dst, int64(value)) },
		func(src []byte) (T, []byte, error) {
			value, rest, err := msgpack.ReadInt(src, bits)
			return T(value), rest, err
		})
}

func unsignedCodec[T uint | uint8 | uint16 | uint32 | uint64]() *Codec[T] {
	bits := reflect.TypeFor[T]().Bits()
	return newCodec(
		func(dst []byte, value T) []byte { return msgp.AppendUint64(dst, uint64(value)) },
		func(src []byte) (T, []byte, error) {
			value, rest, err := msgpack.ReadUint(src, bits)
			return T(value), rest, err
		})
}

func appendBool(dst []byte, value bool) []byte { return msgp.AppendBool(dst, value) }

func appendText(dst []byte, value *string) ([]byte, error) { return msgpack.AppendText(dst, *value) }

func readString(src []byte) (string, []byte, error) {
	text, rest, err := msgpack.ReadText(src)
	return string(text), rest, err
}

// readFloat32 rounds to the nearest float32, and refuses numbers that are beyond the
// largest one.
func readFloat32(src []byte) (float32, []byte, error) {
	value, rest, err := msgpack.ReadFloat(src)
	if err == nil && !fitsFloat32(value) {
		return 0, src, fmt.Errorf("%v does not fit float32", value)
	}
	return float32(value), rest, err
}

func fitsFloat32(value float64) bool {
	return !math.IsInf(float64(float32(value)), 0) || math.IsInf(value, 0)
}

func bytesReader(options Option) func([]byte) ([]byte, []byte, error) {
	if options&AliasBytes != 0 {
		return msgpack.ReadBytes
	}
	return readBytesCopy
}

func readBytesCopy(src []byte) ([]byte, []byte, error) {
	data, rest, err := msgpack.ReadBytes(src)
	return bytes.Clone(data), rest, err
}
