package codec

import (
	"strconv"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/tinylib/msgp/msgp"
)

// A PlainReader reads a value at the start of src as Fill would, and returns it with what
// follows. A plan has to be told where a value lies, and what is passed on so lies on the
// heap; values of basic types are small enough to be returned.
type PlainReader[T any] func(src []byte) (value T, rest []byte, err error)

// A PlainAppender appends a value as AppendWith would.
type PlainAppender[T any] func(beside *Beside, dst []byte, value T) ([]byte, error)

// PlainReaderFor returns the reader of a type, or nil if the type has none. A []byte points
// into src, as with AliasBytes.
func PlainReaderFor[T any]() PlainReader[T] {
	var of any
	switch any(*new(T)).(type) {
	case bool:
		of = PlainReader[bool](msgpack.ReadBool)
	case int:
		of = PlainReader[int](readPlainInt)
	case int64:
		of = PlainReader[int64](msgpack.ReadInt64)
	case uint64:
		of = PlainReader[uint64](readPlainUint)
	case float64:
		of = PlainReader[float64](msgpack.ReadFloat)
	case string:
		of = PlainReader[string](readPlainText)
	case []byte:
		of = PlainReader[[]byte](msgpack.ReadBytes)
	}
	reader, _ := of.(PlainReader[T])
	return reader
}

func readPlainInt(src []byte) (int, []byte, error) {
	value, rest, err := msgpack.ReadInt(src, strconv.IntSize)
	return int(value), rest, err
}

func readPlainUint(src []byte) (uint64, []byte, error) { return msgpack.ReadUint(src, 64) }

func readPlainText(src []byte) (string, []byte, error) {
	text, rest, err := msgpack.ReadText(src)
	return string(text), rest, err
}

// PlainAppenderFor returns the appender of a type, or nil if the type has none.
func PlainAppenderFor[T any]() PlainAppender[T] {
	var of any
	switch any(*new(T)).(type) {
	case bool:
		of = PlainAppender[bool](appendPlainBool)
	case int:
		of = PlainAppender[int](appendPlainInt)
	case int64:
		of = PlainAppender[int64](appendPlainInt64)
	case uint64:
		of = PlainAppender[uint64](appendPlainUint)
	case float64:
		of = PlainAppender[float64](appendPlainFloat)
	case string:
		of = PlainAppender[string](appendPlainText)
	case []byte:
		of = PlainAppender[[]byte](appendPlainBytes)
	}
	appender, _ := of.(PlainAppender[T])
	return appender
}

func appendPlainBool(_ *Beside, dst []byte, value bool) ([]byte, error) {
	return msgp.AppendBool(dst, value), nil
}

// These are not one generic function, which every call would enter by way of a dictionary.

func appendPlainInt(_ *Beside, dst []byte, value int) ([]byte, error) {
	return msgpack.AppendInt(dst, int64(value)), nil
}

func appendPlainInt64(_ *Beside, dst []byte, value int64) ([]byte, error) {
	return msgpack.AppendInt(dst, value), nil
}

func appendPlainUint(_ *Beside, dst []byte, value uint64) ([]byte, error) {
	return msgpack.AppendUint(dst, value), nil
}

func appendPlainFloat(_ *Beside, dst []byte, value float64) ([]byte, error) {
	return msgp.AppendFloat64(dst, value), nil
}

func appendPlainText(_ *Beside, dst []byte, value string) ([]byte, error) {
	return msgpack.AppendText(dst, value)
}

func appendPlainBytes(beside *Beside, dst []byte, value []byte) ([]byte, error) {
	return beside.appendBytes(dst, value), nil
}
