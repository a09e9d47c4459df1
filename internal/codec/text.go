package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// AppendFromText appends an argument of the command line as MessagePack of the
// given type. Text, bytes, numbers, times and durations are written as they
// are, "null" stands for no value where the type is optional, and lists, maps
// and structs are JSON. For the type any, what is JSON is taken as JSON and all
// else as text. On error dst keeps its length.
func AppendFromText(dst []byte, t schema.Type, types schema.Types, text string) ([]byte, error) {
	switch t.Kind {
	case schema.Bytes:
		return msgp.AppendBytes(dst, []byte(text)), nil
	case schema.Optional:
		if text == "null" {
			return msgp.AppendNil(dst), nil
		}
		return AppendFromText(dst, *t.Element, types, text)
	case schema.Any:
		if !json.Valid([]byte(text)) {
			return AppendFromText(dst, schema.Type{Kind: schema.String}, types, text)
		}
		return AppendFromJSON(dst, t, types, []byte(text))
	case schema.List, schema.Map, schema.StructRef:
		return AppendFromJSON(dst, t, types, []byte(text))
	case schema.Duration:
		return appendDuration(dst, text)
	}
	out, err := appendScalar(dst, t.Kind, text)
	return out[:len(dst)+keep(len(out)-len(dst), err)], err
}

// appendDuration appends a duration, which must have a unit: somebody who types a bare
// number may mean seconds as well as nanoseconds.
func appendDuration(dst []byte, text string) ([]byte, error) {
	exact, err := withoutFractions(text)
	if errors.Is(err, errFiner) {
		return dst, fmt.Errorf("%.40q %w", text, err)
	}
	value, err := time.ParseDuration(exact)
	if err != nil {
		return dst, fmt.Errorf("%.40q is not a duration: write a number and its unit, such as 1.5s or 20ms", text)
	}
	return msgp.AppendInt64(dst, int64(value)), nil
}

// keep returns how many of the bytes that were just written are kept.
func keep(written int, err error) int {
	if err != nil {
		return 0
	}
	return written
}

// AppendArgumentsFromText appends the arguments of a command line as a
// MessagePack array. On error dst keeps its length.
func AppendArgumentsFromText(dst []byte, f *schema.Function, texts []string) ([]byte, error) {
	if f.UsesDescriptors() {
		return dst, fmt.Errorf("%s takes or returns files or connections, which have no form in text: call it from a program", f.Name)
	}
	if err := f.CheckArgumentCount(len(texts)); err != nil {
		return dst, err
	}
	out := msgp.AppendArrayHeader(dst, uint32(len(texts)))
	for i, text := range texts {
		param, _ := f.ParamAt(i)
		var err error
		if out, err = AppendFromText(out, param.Type, f.Types, text); err != nil {
			return out[:len(dst)], AtArgument(f, i, err)
		}
	}
	return out, nil
}
