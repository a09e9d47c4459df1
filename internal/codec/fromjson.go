package codec

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// AppendFromJSON appends the JSON value as MessagePack of the given type; types
// holds the structs. On error dst keeps its length.
func AppendFromJSON(dst []byte, t schema.Type, types schema.Types, text []byte) ([]byte, error) {
	reader, err := newJSONReader(text)
	if err != nil {
		return dst, err
	}
	w := &fromJSON{reader: reader, types: types, out: dst}
	if err := w.value(t, 0); err != nil {
		return w.out[:len(dst)], err
	}
	return w.out, nil
}

// AppendArgumentsFromJSON appends the arguments of a call, a JSON array, as a
// MessagePack array, whose memory by counts. On error dst keeps its length.
func AppendArgumentsFromJSON(by *msgpack.Meter, dst []byte, f *schema.Function, text []byte) ([]byte, error) {
	reader, err := newJSONReader(text)
	if err != nil {
		return dst, err
	}
	w := &fromJSON{reader: reader, types: f.Types, out: append(dst, 0), meter: by, counted: cap(dst)}
	// The array of arguments is not part of any value, so it adds no depth.
	count, err := w.reader.list(0, func(index int) error {
		param, ok := f.ParamAt(index)
		if !ok {
			param.Type.Kind = schema.Any
		}
		return AtArgument(f, index, w.value(param.Type, 0))
	})
	if err == nil {
		err = f.CheckArgumentCount(count)
	}
	if err != nil {
		return w.out[:len(dst)], err
	}
	w.closeList(len(dst), count)
	return w.out, nil
}

// AtArgument says which argument an error is about; nil stays nil.
func AtArgument(f *schema.Function, index int, err error) error {
	if err == nil {
		return nil
	}
	param, _ := f.ParamAt(index)
	return fmt.Errorf("argument %d (%s): %w", index+1, param.Name, err)
}

// fromJSON appends what its reader reads.
type fromJSON struct {
	reader jsonReader
	types  schema.Types
	out    []byte
	// meter counts what out takes, of which it has counted so much.
	meter   *msgpack.Meter
	counted int
}

// count counts what out has grown by. It may become several times the text: "1," is a float
// of nine bytes.
func (w *fromJSON) count() error {
	grown := cap(w.out) - w.counted
	if grown <= 0 {
		return nil
	}
	w.counted += grown
	return w.meter.Take(1, uintptr(grown))
}

func (w *fromJSON) value(t schema.Type, depth int) error {
	if err := w.count(); err != nil {
		return err
	}
	switch t.Kind {
	case schema.Any:
		return w.any(depth)
	case schema.List:
		return w.list(*t.Element, depth)
	case schema.Map:
		return w.pairs(t, depth)
	case schema.StructRef:
		return w.fields(t.Struct, depth)
	case schema.Optional:
		if w.reader.peek() == 'n' {
			w.reader.bare()
			w.out = msgp.AppendNil(w.out)
			return nil
		}
		return w.value(*t.Element, depth)
	}
	return w.scalar(t.Kind)
}

// scalar reads true, false, a number or a string as the kind wants it.
func (w *fromJSON) scalar(kind schema.Kind) (err error) {
	came := w.reader.kind()
	if !fitsKind(came, kind) {
		return mismatch(came, kind.String())
	}
	var text []byte
	if came == "string" {
		text, err = w.reader.string()
	} else {
		text = w.reader.bare()
	}
	if err == nil && !w.plain(kind, text) {
		err = w.unusual(kind, text)
	}
	return err
}

// plain appends the values of which a call has most, without memory for their text. It
// reports false if it has appended nothing.
func (w *fromJSON) plain(kind schema.Kind, text []byte) bool {
	switch {
	case kind == schema.String:
		// The reader lets only UTF-8 through.
		w.out = msgp.AppendStringFromBytes(w.out, text)
		return true
	case kind == schema.Bytes:
		return w.base64(text) == nil
	case kind.IsSigned():
		value, err := strconv.ParseInt(string(text), 10, kind.Bits())
		if err == nil {
			w.out = msgp.AppendInt64(w.out, value)
		}
		return err == nil
	}
	return false
}

// unusual appends any value, or says what is wrong with it.
func (w *fromJSON) unusual(kind schema.Kind, text []byte) (err error) {
	if kind == schema.Bytes {
		return w.base64(text)
	}
	w.out, err = appendScalar(w.out, kind, string(text))
	return err
}

// fitsKind reports whether a JSON value of one kind may stand for a value of a basic
// kind. Decimal strings may stand for numbers.
func fitsKind(came string, kind schema.Kind) bool {
	switch kind {
	case schema.Bool:
		return came == "bool"
	case schema.String, schema.Bytes, schema.Time:
		return came == "string"
	}
	return came == "number" || came == "string"
}

// strictBase64 refuses bits behind the data.
var strictBase64 = base64.StdEncoding.Strict()

// base64 appends bytes. The decoder skips line breaks, of which it does not tell, so that
// only text without them says how many bytes there are.
func (w *fromJSON) base64(text []byte) error {
	by, before := strictBase64, len(w.out)
	expected := by.DecodedLen(len(text)) - len(text) + len(bytes.TrimRight(text, "="))
	w.out = msgp.AppendBytesHeader(w.out, uint32(max(expected, 0)))
	start := len(w.out)
	out, err := by.AppendDecode(w.out, text)
	switch {
	case err != nil:
		w.out = w.out[:before]
		return fmt.Errorf("bytes are written in base64: %w", err)
	case len(out)-start != expected:
		out = msgp.AppendBytes(out[:before], slices.Clone(out[start:]))
	}
	w.out = out
	return nil
}

// appendScalar appends the value of a basic kind that text states. JSON and the command
// line share it, except for durations.
func appendScalar(dst []byte, kind schema.Kind, text string) ([]byte, error) {
	switch {
	case kind == schema.Bool && (text == "true" || text == "false"):
		return msgp.AppendBool(dst, text == "true"), nil
	case kind == schema.String:
		return msgpack.AppendText(dst, text)
	case kind == schema.Time:
		moment, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return dst, fmt.Errorf("%.40q is not a time such as 2026-01-31T12:00:00Z (RFC 3339)", text)
		}
		if hasFinerTime(text) {
			return dst, fmt.Errorf("%.40q has digits below a nanosecond", text)
		}
		return msgpack.AppendTime(dst, moment), checkYear(moment)
	case kind == schema.Duration:
		return appendDurationJSON(dst, text)
	case kind.IsSigned():
		value, err := strconv.ParseInt(text, 10, kind.Bits())
		return msgp.AppendInt64(dst, value), numberError(kind, text, err)
	case kind.IsUnsigned():
		value, err := strconv.ParseUint(text, 10, kind.Bits())
		return msgp.AppendUint64(dst, value), numberError(kind, text, err)
	case kind.Bits() > 0:
		return appendFloat(dst, kind, text)
	case kind.IsDescriptor():
		return dst, fmt.Errorf("a %s cannot be written as text or JSON: it travels beside a payload in MessagePack", kind)
	}
	return dst, fmt.Errorf("%.40q is not a %s", text, kind)
}

func appendDurationJSON(dst []byte, text string) ([]byte, error) {
	if value, err := strconv.ParseInt(text, 10, 64); err == nil {
		return msgp.AppendInt64(dst, value), nil
	}
	out, err := appendDuration(dst, text)
	if err != nil {
		return dst, fmt.Errorf("%w; a number is nanoseconds", err)
	}
	return out, nil
}

func appendFloat(dst []byte, kind schema.Kind, text string) ([]byte, error) {
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return dst, fmt.Errorf("%.40q is not a decimal number", text)
	}
	value, err := strconv.ParseFloat(text, kind.Bits())
	if kind == schema.Float32 {
		return msgp.AppendFloat32(dst, float32(value)), numberError(kind, text, err)
	}
	return msgp.AppendFloat64(dst, value), numberError(kind, text, err)
}

func numberError(kind schema.Kind, text string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange) || strings.HasPrefix(text, "-") && kind.IsUnsigned():
		return fmt.Errorf("%.40s does not fit %s", text, kind)
	case kind.IsSigned() || kind.IsUnsigned():
		return fmt.Errorf("%.40q is not a whole number in decimal digits", text)
	}
	return fmt.Errorf("%.40q is not a decimal number", text)
}

// any keeps apart what JSON itself keeps apart. A number without a point and an
// exponent is an integer if one can hold it.
func (w *fromJSON) any(depth int) (err error) {
	switch w.reader.kind() {
	case "list":
		return w.list(schema.Type{Kind: schema.Any}, depth)
	case "map":
		any := schema.Type{Kind: schema.Any}
		return w.pairs(schema.Type{Kind: schema.Map, Key: schema.String, Element: &any}, depth)
	case "string":
		return w.scalar(schema.String)
	case "bool":
		return w.scalar(schema.Bool)
	case "nil":
		w.reader.bare()
		w.out = msgp.AppendNil(w.out)
		return nil
	}
	text := string(w.reader.bare())
	for _, kind := range []schema.Kind{schema.Int64, schema.Uint64, schema.Float64} {
		before := len(w.out)
		if w.out, err = appendScalar(w.out, kind, text); err == nil {
			return nil
		}
		w.out = w.out[:before]
	}
	return err
}

func (w *fromJSON) list(element schema.Type, depth int) error {
	at := len(w.out)
	w.out = append(w.out, 0)
	count, err := w.reader.list(depth, func(index int) error {
		if err := w.value(element, depth+1); err != nil {
			return fmt.Errorf("element %d: %w", index, err)
		}
		return nil
	})
	w.closeList(at, count)
	return err
}

func (w *fromJSON) pairs(t schema.Type, depth int) error {
	at := len(w.out)
	w.out = append(w.out, 0)
	count, err := w.reader.object(depth, func(key []byte) error {
		if !w.plain(t.Key, key) {
			if err := w.unusual(t.Key, key); err != nil {
				return fmt.Errorf("key %.80q: %w", key, err)
			}
		}
		if err := w.value(*t.Element, depth+1); err != nil {
			return fmt.Errorf("value of key %.80q: %w", key, err)
		}
		return nil
	})
	w.closeMap(at, count)
	return err
}

func (w *fromJSON) fields(name string, depth int) error {
	at := len(w.out)
	w.out = append(w.out, 0)
	count, err := w.reader.object(depth, func(key []byte) error {
		t, ok := w.types.Field(name, string(key))
		if !ok {
			return fmt.Errorf("%s has no field %.80q; it has %s", name, key, w.types.FieldNames(name))
		}
		w.out = msgp.AppendStringFromBytes(w.out, key)
		if err := w.value(t, depth+1); err != nil {
			return fmt.Errorf("field %s: %w", key, err)
		}
		return nil
	})
	w.closeMap(at, count)
	return err
}

// The number of elements is known only after them. One byte is left for the header, and
// if that is not enough what follows it is moved.

func (w *fromJSON) closeList(at, count int) {
	var room [5]byte
	w.close(at, msgp.AppendArrayHeader(room[:0], uint32(count)))
}

func (w *fromJSON) closeMap(at, count int) {
	var room [5]byte
	w.close(at, msgp.AppendMapHeader(room[:0], uint32(count)))
}

func (w *fromJSON) close(at int, header []byte) {
	end := len(w.out)
	w.out = append(w.out, header[1:]...)
	copy(w.out[at+len(header):], w.out[at+1:end])
	copy(w.out[at:], header)
}
