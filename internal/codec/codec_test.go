package codec_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/tinylib/msgp/msgp"
)

type (
	label string
	octet byte
	inner struct {
		Depth int8 `json:"depth"`
	}
	outer struct {
		inner
		Name    label                  `json:"name"`
		Blob    []byte                 `json:"blob"`
		Octets  []octet                `json:"octets"`
		Age     *int64                 `json:"age"`
		Tags    []string               `json:"tags"`
		Numbers map[int16]float32      `json:"numbers"`
		Next    *outer                 `json:"next"`
		All     []outer                `json:"all"`
		Moment  time.Time              `json:"moment"`
		Pause   time.Duration          `json:"pause"`
		Whole   map[string]any         `json:"whole"`
		Value   any                    `json:"value"`
		Keys    map[label][]*time.Time `json:"keys"`
	}
	chain struct {
		Next *chain `json:"next"`
	}
)

// shared returns a value with 2^levels parts, which it shares.
func shared(levels int) any {
	value := any("x")
	for range levels {
		value = []any{value, value}
	}
	return value
}

type twice struct{ One, Other *twice }

// Parts that are shared are encoded as often as they are met: more than a frame may have is
// refused before it takes the program's time and memory.
func TestSharedPartsAreBounded(t *testing.T) {
	var tree *twice
	for range 30 {
		tree = &twice{tree, tree}
	}
	text, pointer := strings.Repeat("x", 1<<20), make([]*string, 100_000)
	names, values := map[string]any{}, map[string]any{"x": 1}
	for i := range pointer {
		pointer[i] = &text
	}
	for level := range 14 {
		for key := range 4 {
			names[fmt.Sprint(key)] = values
		}
		names, values = map[string]any{"level": level}, names
	}
	for name, value := range map[string]any{"lists": shared(30), "structs": tree, "pointers": pointer, "maps": values, "a field": struct{ All map[string]any }{values}} {
		encoded, err := codec.AppendValue(nil, value)
		if !errors.Is(err, msgpack.ErrTooLarge) || !strings.Contains(fmt.Sprint(err), "frame_bytes_max") {
			t.Errorf("%s: %d bytes, %v", name, len(encoded), err)
		}
	}
}

func sample() outer {
	age, moment := int64(33), time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	return outer{
		inner: inner{Depth: -128}, Name: "ä", Blob: []byte{0, 255}, Octets: []octet{1, 2}, Age: &age,
		Tags: []string{"", "x"}, Numbers: map[int16]float32{-5: 1.5, 7: 0}, Moment: moment, Pause: -time.Second,
		Next: &outer{Tags: []string{}, Numbers: map[int16]float32{}, All: []outer{}, Whole: map[string]any{}, Keys: map[label][]*time.Time{},
			Blob: []byte{}, Octets: []octet{}},
		All: []outer{}, Whole: map[string]any{"a": []any{int64(1), "b", nil}}, Value: uint64(math.MaxUint64),
		Keys: map[label][]*time.Time{"k": {&moment, nil}},
	}
}

func roundTrip[T any](t *testing.T, value T, options ...codec.Option) {
	t.Helper()
	c, err := codec.For[T](options...)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := c.Append([]byte("before"), &value)
	if err != nil {
		t.Fatalf("%v: %v", value, err)
	}
	var got T
	rest, err := c.Decode(append(encoded[len("before"):], 0xC3), &got)
	if err != nil || len(rest) != 1 || !reflect.DeepEqual(got, value) {
		t.Errorf("%#v came back as %#v, %d bytes left, %v", value, got, len(rest), err)
	}
	byPlan, err := codec.AppendValue(nil, value)
	if err != nil {
		t.Errorf("%T: %v", value, err)
	}
	if _, err := c.Decode(byPlan, &got); err != nil || !reflect.DeepEqual(got, value) {
		t.Errorf("%#v through any came back as %#v, %v", value, got, err)
	}
}

func TestIntegerBoundaries(t *testing.T) {
	boundaries[int8](t, math.MinInt8, math.MaxInt8)
	boundaries[int16](t, math.MinInt16, math.MaxInt16)
	boundaries[int32](t, math.MinInt32, math.MaxInt32)
	boundaries[int64](t, math.MinInt64, math.MaxInt64)
	boundaries[int](t, math.MinInt64, math.MaxInt64)
	boundaries[uint8](t, 0, math.MaxUint8)
	boundaries[uint16](t, 0, math.MaxUint16)
	boundaries[uint32](t, 0, math.MaxUint32)
	boundaries[uint64](t, 0, math.MaxUint64)
	boundaries[uint](t, 0, math.MaxUint64)
	type named int8
	boundaries[named](t, math.MinInt8, math.MaxInt8)
	type unsigned uint16
	boundaries[unsigned](t, 0, math.MaxUint16)
}

// boundaries sends every number near a power of two to T: those from least to
// most must arrive, all others must be refused.
func boundaries[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](t *testing.T, least int64, most uint64) {
	t.Helper()
	c, err := codec.For[T]()
	if err != nil {
		t.Fatal(err)
	}
	check := func(encoded []byte, number any, fits bool, want T) {
		var got T
		_, err := c.Decode(encoded, &got)
		if (err == nil) != fits || fits && got != want {
			t.Errorf("%v to %T: %v, %v", number, got, got, err)
		}
	}
	for bits := range 64 {
		for _, offset := range []uint64{math.MaxUint64, 0, 1} {
			number := uint64(1)<<bits + offset
			check(msgp.AppendUint64(nil, number), number, number <= most, T(number))
			negative := -int64(number)
			if negative <= 0 {
				check(msgp.AppendInt64(nil, negative), negative, negative >= least, T(negative))
			}
		}
	}
	check(msgp.AppendUint64(nil, math.MaxUint64), "MaxUint64", most == math.MaxUint64, T(most))
	roundTrip(t, T(least))
	roundTrip(t, T(most))
}

func TestRoundTrips(t *testing.T) {
	moment := time.Date(1901, 2, 3, 4, 5, 6, 7, time.UTC)
	roundTrip(t, true)
	roundTrip(t, float32(math.MaxFloat32))
	roundTrip(t, float32(math.Inf(-1)))
	roundTrip(t, math.MaxFloat64)
	roundTrip(t, "")
	roundTrip(t, strings.Repeat("ß", 1<<16))
	roundTrip(t, []byte{})
	roundTrip(t, make([]byte, 1<<17), codec.AliasBytes)
	roundTrip(t, moment)
	roundTrip(t, time.Time{})
	roundTrip(t, time.Duration(math.MinInt64))
	roundTrip(t, &moment)
	roundTrip(t, []time.Time{moment})
	roundTrip(t, (*string)(nil))
	roundTrip(t, map[uint64]bool{math.MaxUint64: true})
	roundTrip(t, map[string]string{"": "ä", "b": ""})
	roundTrip(t, map[string]int{"a": math.MinInt64})
	roundTrip(t, map[string]float64{"a": 0.5})
	roundTrip(t, map[string]bool{"a": true, "b": false})
	roundTrip(t, counts{"a": 1 << 40})
	roundTrip(t, make([]int8, 70_000))
	roundTrip(t, json.RawMessage("{}"))
	roundTrip(t, label("x"))
	roundTrip(t, sample())
	roundTrip(t, []*outer{nil, {Tags: []string{}, Numbers: map[int16]float32{}, All: []outer{}, Whole: map[string]any{},
		Keys: map[label][]*time.Time{}, Blob: []byte{}, Octets: []octet{}}})
	roundTrip[any](t, map[string]any{"a": int64(1)})
	roundTrip(t, struct{}{})
}

func TestNilIsEmpty(t *testing.T) {
	for _, target := range []any{new([]int), new(map[string]int)} {
		plan, err := codec.NewPlan(reflect.TypeOf(target).Elem())
		if err != nil {
			t.Fatal(err)
		}
		value := reflect.ValueOf(target).Elem()
		if _, err := plan.Decode([]byte{0xC0}, value); err != nil || value.Len() != 0 {
			t.Errorf("%T: %v, %v", target, value, err)
		}
		encoded, err := plan.Append(nil, reflect.Zero(value.Type()))
		if err != nil || encoded[0] == 0xC0 {
			t.Errorf("nil %T is sent as %x, %v", target, encoded, err)
		}
	}
}

func TestAny(t *testing.T) {
	moment := time.Unix(1, 0).UTC()
	value := []any{struct{ Whole any }{}, &inner{Depth: 1}, []string{"a"}, []inner{{Depth: 2}}, label("l"), moment, &moment, int8(1), uint8(2), float32(1.5), (*inner)(nil)}
	encoded, err := codec.AppendValue(nil, value)
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.For[any]()
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if _, err := c.Decode(encoded, &got); err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"depth": int64(1)}, []any{"a"}, []any{map[string]any{"depth": int64(2)}}, "l", moment, moment,
		int64(1), int64(2), 1.5, nil}
	if !reflect.DeepEqual(got.([]any)[1:], want) {
		t.Errorf("came back as %#v", got)
	}
}

// A duration is sent where a description tells that it is one, and nowhere else.
func TestDurationInAny(t *testing.T) {
	type pause struct{ For time.Duration }
	type holder struct{ Value any }
	for _, typed := range []any{time.Second, []time.Duration{1}, pause{}, &pause{}, map[string]pause{}} {
		if _, err := codec.AppendValue(nil, typed); err != nil {
			t.Errorf("%#v: %v", typed, err)
		}
		for _, dynamic := range []any{[]any{typed}, map[string]any{"a": typed}, map[int64]any{1: []any{typed}}, holder{typed}, []any{holder{typed}}} {
			if encoded, err := codec.AppendValue(nil, dynamic); err == nil || !strings.Contains(err.Error(), "duration") {
				t.Errorf("%#v is sent as %x, %v", dynamic, encoded, err)
			}
		}
	}
	c, err := codec.For[any]()
	if err != nil {
		t.Fatal(err)
	}
	value := any(time.Second)
	if encoded, err := c.Append(nil, &value); err == nil {
		t.Errorf("any of a duration is sent as %x", encoded)
	}
}

func decodeInto(target any, src string, options ...codec.Option) error {
	plan, err := codec.NewPlan(reflect.TypeOf(target).Elem(), options...)
	if err != nil {
		return err
	}
	data, err := hex.DecodeString(src)
	if err != nil {
		return err
	}
	_, err = plan.Decode(data, reflect.ValueOf(target).Elem())
	return err
}

func TestErrorsSayWhere(t *testing.T) {
	for _, test := range []struct {
		target any
		src    string
		want   string
	}{
		{new(int8), "cd012c", "300 does not fit int8"},
		{new([]int8), "9201cd012c", "element 1: 300 does not fit int8"},
		{new(outer), "81a464617461c0", `there is no field "data"; there are depth, name, `},
		{new(outer), "81a56465707468a161", "field depth: string came where int8 is expected"},
		{new(outer), "81a46e65787481a3616c6c9181a4626c6f6203", "field next: field all: element 0: field blob: integer came where bytes is expected"},
		{new(outer), "8103c0", "name of field 0: integer came"},
		{new(outer), "c0", "nil came where map is expected"},
		{new(map[string]uint8), "81a16bff", `value of key "k": -1 does not fit uint8`},
		{new(map[int8]bool), "81cd012cc3", "key 0: 300 does not fit int8"},
		{new(float32), "cb7fefffffffffffff", "does not fit float32"},
		{new(string), "a1ff", "not valid UTF-8"},
		{new(string), "c40161", "bytes came where string is expected"},
		{new(map[string]string), "81a16bff", `value of key "k": integer came where string is expected`},
		{new(map[string]int), "8107ff", "key 0: integer came where string is expected"},
		{new(map[string]any), "81a16b91", `value of key "k": the data ends`},
		{new(map[string]any), "8107ff", "key 0: integer came where string is expected"},
		{new(map[string]any), "81a16b" + strings.Repeat("91", 32) + "c0", `value of key "k": `},
		{new(bool), "01", "integer came where bool is expected"},
		{new(time.Duration), "cb3ff0000000000000", "float came where int64 is expected"},
		{new([]int), "a0", "string came where list is expected"},
		{new([]int), "92", "the data ends within a value"},
	} {
		if err := decodeInto(test.target, test.src); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%T from %s: %v, want %q", test.target, test.src, err, test.want)
		}
	}
}

func TestFloatsAcceptIntegers(t *testing.T) {
	for src, want := range map[string]float64{"07": 7, "ff": -1, "cffffffffffffff800": math.MaxUint64 - 2047, "ca3fc00000": 1.5} {
		var got float64
		if err := decodeInto(&got, src); err != nil || got != want {
			t.Errorf("%s: %v, %v", src, got, err)
		}
	}
}

func TestUnknownFields(t *testing.T) {
	// {"x": [[nil]], "depth": 5, "y": {}}
	const src = "83a1789191c0a56465707468" + "05" + "a17980"
	var got inner
	if err := decodeInto(&got, src, codec.IgnoreUnknownFields); err != nil || got.Depth != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := decodeInto(&got, src); err == nil {
		t.Error("a strict plan took an unknown field")
	}
}

func TestDecodeOverwritesAll(t *testing.T) {
	value := sample()
	if err := decodeInto(&value, "81a5646570746805"); err != nil || !reflect.DeepEqual(value, outer{inner: inner{Depth: 5}}) {
		t.Errorf("%+v, %v", value, err)
	}
}

// What is there twice would lose one of its values, in whatever form it comes.
func TestDecodeRefusesTwice(t *testing.T) {
	many := reflect.New(manyFields(70)).Interface()
	for name, row := range map[string]struct {
		into      any
		src, says string
	}{
		"text keys":            {new(map[string]int), "83a16101a16202a16103", `key "a" is there twice`},
		"text of text":         {new(map[string]string), "82a161a162a161a163", `key "a" is there twice`},
		"any of text":          {new(map[string]any), "83a16101a16202a16103", `key "a" is there twice`},
		"integers of text":     {new(counts), "83a16101a16202a16203", `key "b" is there twice`},
		"integer keys":         {new(map[int64]string), "820 1a161 cc01 a162", `key "1" is there twice`},
		"keys of a text type":  {new(map[keyText]int), "82a16101a16102", `key "a" is there twice`},
		"in a list":            {new([]map[uint8]bool), "91 82 05c3 05c2", `element 0: key "5" is there twice`},
		"any, text keys":       {new(any), "82a16101a16101", `key "a" is there twice`},
		"any, integer keys":    {new(any), "82 01c3 d10001 c2", `key "1" is there twice`},
		"within any":           {new(any), "91 81a162 82 01c3 01c2", `key "1" is there twice`},
		"a field in order":     {new(outer), "82a5646570746805a5646570746805", "field depth is there twice"},
		"a late field":         {many, "82a3463639 05a3463639 05", "field F69 is there twice"},
		"fields in two orders": {many, "83a3463031 05a3463030 05a3463030 05", "field F00 is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			err := decodeInto(row.into, strings.ReplaceAll(row.src, " ", ""))
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v is taken for it; error %v", reflect.ValueOf(row.into).Elem(), err)
			}
		})
	}
	if err := decodeInto(many, "83a346363905a346303005a346303105"); err != nil {
		t.Errorf("fields in another order: %v", err)
	}
}

type (
	keyText string
	counts  map[string]int64
)

func manyFields(count int) reflect.Type {
	var fields []reflect.StructField
	for i := range count {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%02d", i), Type: reflect.TypeFor[int]()})
	}
	return reflect.StructOf(fields)
}

func TestAliasBytes(t *testing.T) {
	src := []byte{0xC4, 3, 1, 2, 3, 0xC3}
	for _, alias := range []bool{true, false} {
		var options []codec.Option
		if alias {
			options = append(options, codec.AliasBytes)
		}
		c, err := codec.For[[]byte](options...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := codec.NewPlan(reflect.TypeFor[json.RawMessage](), options...)
		if err != nil {
			t.Fatal(err)
		}
		var data []byte
		var named json.RawMessage
		_, err = c.Decode(src, &data)
		_, errPlan := plan.Decode(src, reflect.ValueOf(&named).Elem())
		if err != nil || errPlan != nil || cap(data) > 3 && alias {
			t.Fatal(err, errPlan, cap(data))
		}
		if (&data[0] == &src[2]) != alias || (&named[0] == &src[2]) != alias {
			t.Errorf("alias %v: %v %v", alias, &data[0] == &src[2], &named[0] == &src[2])
		}
	}
	nested, err := codec.For[[][]byte](codec.AliasBytes)
	if err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	src = append([]byte{0x91}, src...)
	if _, err := nested.Decode(src, &list); err != nil || &list[0][0] == &src[3] {
		t.Errorf("bytes in a list alias their source; %v", err)
	}
}

func TestNestingIsBounded(t *testing.T) {
	link := func(levels int) *chain {
		var c *chain
		for range levels {
			c = &chain{Next: c}
		}
		return c
	}
	loop := &chain{}
	loop.Next = loop
	for _, test := range []struct {
		value *chain
		ok    bool
	}{{link(wire.NestingDepthMax), true}, {link(wire.NestingDepthMax + 1), false}, {loop, false}} {
		if _, err := codec.AppendValue(nil, test.value); (err == nil) != test.ok {
			t.Errorf("append: %v, want ok %v", err, test.ok)
		}
	}
	for levels, ok := range map[int]bool{wire.NestingDepthMax: true, wire.NestingDepthMax + 1: false, 1_000_000: false} {
		links := append(bytes.Repeat([]byte("\x81\xA4next"), levels), 0xC0)
		lists := append(bytes.Repeat([]byte{0x91}, levels), 0xC0)
		var c *chain
		var a any
		if err := decodeInto(&c, hex.EncodeToString(links)); (err == nil) != ok {
			t.Errorf("%d structs: %.200v", levels, err)
		}
		if err := decodeInto(&a, hex.EncodeToString(lists)); (err == nil) != ok {
			t.Errorf("%d lists: %.200v", levels, err)
		}
		unknown := append([]byte("\x81\xA1x"), lists...)
		if err := decodeInto(&c, hex.EncodeToString(unknown), codec.IgnoreUnknownFields); (err == nil) != (levels < wire.NestingDepthMax) {
			t.Errorf("%d lists in an unknown field: %.200v", levels, err)
		}
	}
}

func TestHostileLengthsAllocateNothing(t *testing.T) {
	for _, target := range []any{new([]outer), new(map[string]outer), new(outer), new(any), new([]byte), new(string), new([][][]int)} {
		for _, src := range []string{"ddffffffff", "dfffffffff", "c6ffffffff", "dbffffffff", "c9ffffffff01", "91ddffffffff", "dd000fffff" + strings.Repeat("c1", 1000)} {
			const runs = 20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range runs {
				if err := decodeInto(target, src); err == nil {
					t.Fatalf("%T took %.20s", target, src)
				}
			}
			runtime.ReadMemStats(&after)
			if spent := (after.TotalAlloc - before.TotalAlloc) / runs; spent > 128<<10 {
				t.Errorf("%T from %.20s: %d bytes allocated for a claim", target, src, spent)
			}
		}
	}
}

func TestAppendRefusesAndKeepsItsDestination(t *testing.T) {
	for _, value := range []any{"\xff", []string{"good", "\xff"}, outer{Name: "\xff"}, map[label]int{"\xff": 1}, []any{make(chan int)}, [][]any{{"a", func() {}}}} {
		out, err := codec.AppendValue([]byte("kept"), value)
		if err == nil || string(out) != "kept" {
			t.Errorf("%T: %q, %v", value, out, err)
		}
	}
	c, err := codec.For[outer]()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Append([]byte("kept"), &outer{Tags: []string{"\xff"}})
	if err == nil || string(out) != "kept" || !strings.HasPrefix(err.Error(), "field tags: element 0: ") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestUnsupportedTypes(t *testing.T) {
	if _, err := codec.For[chan int](); err == nil {
		t.Error("a channel was accepted")
	}
	if _, err := codec.For[[]func()](); err == nil {
		t.Error("a function was accepted")
	}
}

func BenchmarkStruct(b *testing.B) {
	c, err := codec.For[outer]()
	if err != nil {
		b.Fatal(err)
	}
	value := sample()
	encoded, err := c.Append(nil, &value)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encoded, _ = c.Append(encoded[:0], &value)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decode(encoded, &value); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzDecode: whatever decodes must encode, and come back the same.
func FuzzDecode(f *testing.F) {
	c, err := codec.For[outer]()
	if err != nil {
		f.Fatal(err)
	}
	lenient, err := codec.For[outer](codec.IgnoreUnknownFields)
	if err != nil {
		f.Fatal(err)
	}
	value := sample()
	seed, err := c.Append(nil, &value)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	for _, src := range []string{"80", "81a576616c7565ddffffffff", "81a577686f6c65dfffffffff", "c1", "81a66d6f6d656e74d7ffffffffffffffffff"} {
		data, _ := hex.DecodeString(src)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var first, second outer
		rest, err := c.Decode(src, &first)
		restLenient, errLenient := lenient.Decode(src, &second)
		if err != nil {
			return
		}
		if errLenient != nil || len(rest) != len(restLenient) {
			t.Fatalf("a strict plan took what a lenient one did not: %v", errLenient)
		}
		encoded, err := c.Append(nil, &first)
		if err != nil {
			t.Fatalf("%#v was decoded and cannot be encoded: %v", first, err)
		}
		if _, err := c.Decode(encoded, &second); err != nil {
			t.Fatalf("%x was encoded and cannot be decoded: %v", encoded, err)
		}
	})
}
