package codec

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// AppendJSON appends the MessagePack value of the given type at the start of
// src as JSON and returns what follows it in src. Fields that the type does not
// have are left out. On error dst keeps its length.
func AppendJSON(dst []byte, t schema.Type, types schema.Types, src []byte) (out, rest []byte, err error) {
	w := &toJSON{types: types, out: dst}
	rest, err = w.value(src, t, 0)
	if err != nil {
		return w.out[:len(dst)], src, err
	}
	return w.out, rest, nil
}

// AppendResultsJSON appends what a call returned, MessagePack, as JSON: null
// for no result, the value for one, an array for several. On error dst keeps
// its length.
func AppendResultsJSON(dst []byte, f *schema.Function, src []byte) ([]byte, error) {
	w := &toJSON{types: f.Types, out: dst}
	rest, err := w.results(src, f.Results)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the result", len(rest))
	}
	if err != nil {
		return w.out[:len(dst)], err
	}
	return w.out, nil
}

type toJSON struct {
	types schema.Types
	out   []byte
}

func (w *toJSON) results(src []byte, results []schema.Type) ([]byte, error) {
	switch len(results) {
	case 0:
		w.out = append(w.out, "null"...)
		return msgpack.Skip(src, 0)
	case 1:
		return w.value(src, results[0], 0)
	}
	count, rest, err := msgpack.ReadList(src, 0)
	if err == nil && count != len(results) {
		err = fmt.Errorf("%d results came where %d are expected", count, len(results))
	}
	w.out = append(w.out, '[')
	for i := 0; err == nil && i < count; i++ {
		w.comma(i)
		if rest, err = w.value(rest, results[i], 0); err != nil {
			err = fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	w.out = append(w.out, ']')
	return rest, err
}

// comma separates the element at index from the one before.
func (w *toJSON) comma(index int) {
	if index > 0 {
		w.out = append(w.out, ',')
	}
}

func (w *toJSON) value(src []byte, t schema.Type, depth int) ([]byte, error) {
	switch t.Kind {
	case schema.Any:
		return w.any(src, depth)
	case schema.List:
		return w.list(src, *t.Element, depth)
	case schema.Map:
		return w.pairs(src, t, depth)
	case schema.StructRef:
		return w.fields(src, t.Struct, depth)
	case schema.Optional:
		if msgp.IsNil(src) {
			w.out = append(w.out, "null"...)
			return src[1:], nil
		}
		return w.value(src, *t.Element, depth)
	}
	return w.scalar(src, t.Kind)
}

func (w *toJSON) scalar(src []byte, kind schema.Kind) (rest []byte, err error) {
	switch kind {
	case schema.Bool:
		var value bool
		value, rest, err = msgpack.ReadBool(src)
		w.out = strconv.AppendBool(w.out, value)
		return rest, err
	case schema.String:
		var text []byte
		text, rest, err = msgpack.ReadText(src)
		w.out = schema.AppendJSONText(w.out, text)
		return rest, err
	case schema.Bytes:
		var data []byte
		data, rest, err = msgpack.ReadBytes(src)
		w.out = append(base64.StdEncoding.AppendEncode(append(w.out, '"'), data), '"')
		return rest, err
	case schema.Time:
		return w.time(src)
	case schema.Float32, schema.Float64:
		return w.float(src, kind.Bits())
	}
	return w.integer(src, kind)
}

func (w *toJSON) integer(src []byte, kind schema.Kind) (rest []byte, err error) {
	if kind.IsUnsigned() {
		var value uint64
		value, rest, err = msgpack.ReadUint(src, kind.Bits())
		w.out = strconv.AppendUint(w.out, value, 10)
		return rest, err
	}
	if kind == schema.Duration {
		kind = schema.Int64
	}
	if !kind.IsSigned() {
		return src, fmt.Errorf("type %s has no JSON form", kind)
	}
	value, rest, err := msgpack.ReadInt(src, kind.Bits())
	w.out = strconv.AppendInt(w.out, value, 10)
	return rest, err
}

func (w *toJSON) float(src []byte, bits int) ([]byte, error) {
	value, rest, err := msgpack.ReadFloat(src)
	if err != nil {
		return src, err
	}
	if bits == 32 && !fitsFloat32(value) {
		return src, fmt.Errorf("%v does not fit float32", value)
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return src, fmt.Errorf("%v has no JSON form", value)
	}
	w.out = strconv.AppendFloat(w.out, value, 'g', -1, bits)
	return rest, nil
}

func (w *toJSON) time(src []byte) ([]byte, error) {
	value, rest, err := msgpack.ReadTime(src)
	if err != nil {
		return src, err
	}
	if err := checkYear(value); err != nil {
		return src, err
	}
	w.out = value.AppendFormat(append(w.out, '"'), time.RFC3339Nano)
	w.out = append(w.out, '"')
	return rest, nil
}

// checkYear refuses times that RFC 3339 cannot write in UTC.
func checkYear(moment time.Time) error {
	if year := moment.UTC().Year(); year < 0 || year > 9999 {
		return errors.New("a time outside the years 0 to 9999 has no JSON form")
	}
	return nil
}

// any writes a value of type any. A float is written so that it is read as a float
// again.
func (w *toJSON) any(src []byte, depth int) ([]byte, error) {
	switch msgp.NextType(src) {
	case msgp.NilType:
		w.out = append(w.out, "null"...)
		return src[1:], nil
	case msgp.ArrayType:
		return w.list(src, schema.Type{Kind: schema.Any}, depth)
	case msgp.MapType:
		return w.anyPairs(src, depth)
	case msgp.Float32Type, msgp.Float64Type:
		before := len(w.out)
		rest, err := w.float(src, 64)
		if !strings.ContainsAny(string(w.out[before:]), ".e") && err == nil {
			w.out = append(w.out, ".0"...)
		}
		return rest, err
	}
	if msgpack.IsPacked(src) {
		return w.packed(src, schema.Type{Kind: schema.Any}, depth)
	}
	return w.scalar(src, anyKind(src))
}

// anyKind returns the kind as which to write a value that is not a list, map, float or
// nil.
func anyKind(src []byte) schema.Kind {
	switch msgp.NextType(src) {
	case msgp.BoolType:
		return schema.Bool
	case msgp.IntType:
		return schema.Int64
	case msgp.UintType:
		return schema.Uint64
	case msgp.StrType:
		return schema.String
	case msgp.BinType:
		return schema.Bytes
	}
	return schema.Time
}

func (w *toJSON) anyPairs(src []byte, depth int) ([]byte, error) {
	any := schema.Type{Kind: schema.Any}
	t := schema.Type{Kind: schema.Map, Key: schema.String, Element: &any}
	if _, inside, err := msgpack.ReadStruct(src, depth); err == nil {
		switch msgp.NextType(inside) {
		case msgp.IntType, msgp.UintType:
			t.Key = schema.Int64
		}
	}
	return w.pairs(src, t, depth)
}

func (w *toJSON) list(src []byte, element schema.Type, depth int) ([]byte, error) {
	if msgpack.IsPacked(src) {
		return w.packed(src, element, depth)
	}
	count, rest, err := msgpack.ReadList(src, depth)
	if err != nil {
		return src, err
	}
	w.out = append(w.out, '[')
	for i := range count {
		w.comma(i)
		if rest, err = w.value(rest, element, depth+1); err != nil {
			return src, fmt.Errorf("element %d: %w", i, err)
		}
	}
	w.out = append(w.out, ']')
	return rest, nil
}

// packed writes a packed list as the list that it stands for.
func (w *toJSON) packed(src []byte, element schema.Type, depth int) ([]byte, error) {
	list, rest, err := msgpack.ReadPacked(src, depth)
	if err == nil {
		_, err = w.list(list.AppendPlain(nil), element, depth)
	}
	return rest, err
}

func (w *toJSON) pairs(src []byte, t schema.Type, depth int) ([]byte, error) {
	count, rest, err := msgpack.ReadMap(src, depth)
	if err != nil {
		return src, err
	}
	w.out = append(w.out, '{')
	for i := range count {
		w.comma(i)
		if rest, err = w.key(rest, t.Key); err != nil {
			return src, fmt.Errorf("key %d: %w", i, err)
		}
		if rest, err = w.value(rest, *t.Element, depth+1); err != nil {
			return src, fmt.Errorf("value %d: %w", i, err)
		}
	}
	w.out = append(w.out, '}')
	return rest, nil
}

// key writes the key of a map and its colon. JSON has only strings as keys.
func (w *toJSON) key(src []byte, kind schema.Kind) (rest []byte, err error) {
	if kind == schema.String {
		rest, err = w.scalar(src, kind)
	} else {
		w.out = append(w.out, '"')
		rest, err = w.integer(src, kind)
		w.out = append(w.out, '"')
	}
	w.out = append(w.out, ':')
	return rest, err
}

func (w *toJSON) fields(src []byte, name string, depth int) ([]byte, error) {
	count, rest, err := msgpack.ReadStruct(src, depth)
	if err != nil {
		return src, err
	}
	w.out = append(w.out, '{')
	written := 0
	for range count {
		key, after, err := msgpack.ReadText(rest)
		if err != nil {
			return src, fmt.Errorf("name of a field of %s: %w", name, err)
		}
		t, known := w.types.Field(name, string(key))
		if !known {
			if rest, err = msgpack.Skip(after, depth+1); err != nil {
				return src, err
			}
			continue
		}
		w.comma(written)
		written++
		w.out = append(schema.AppendJSONText(w.out, key), ':')
		if rest, err = w.value(after, t, depth+1); err != nil {
			return src, fmt.Errorf("field %s: %w", key, err)
		}
	}
	w.out = append(w.out, '}')
	return rest, nil
}
