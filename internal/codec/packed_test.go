package codec_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
)

func listOf[T any](count int, value func(int) T) []T {
	list := make([]T, count)
	for i := range list {
		list[i] = value(i)
	}
	return list
}

// packedRoundTrip encodes a value with blocks and without, decodes both, and returns both
// encodings.
func packedRoundTrip[T any](t *testing.T, value T) (packed, plain []byte) {
	t.Helper()
	packing, err := codec.For[T](codec.PackLists)
	if err != nil {
		t.Fatal(err)
	}
	usual, err := codec.For[T]()
	if err != nil {
		t.Fatal(err)
	}
	if packed, err = packing.Append(nil, &value); err != nil {
		t.Fatal(err)
	}
	if plain, err = usual.Append(nil, &value); err != nil {
		t.Fatal(err)
	}
	for _, src := range [][]byte{packed, plain, append([]byte{0}, packed...)[1:]} {
		var got T
		rest, err := usual.Decode(append(bytes.Clone(src), 0xC0), &got)
		if err != nil || len(rest) != 1 || !reflect.DeepEqual(got, value) {
			t.Fatalf("%T: %d bytes left, %v, equal: %v", value, len(rest), err, reflect.DeepEqual(got, value))
		}
	}
	again, _, err := msgpack.AppendPlain(nil, packed, 0)
	var got T
	if err == nil {
		_, err = usual.Decode(again, &got)
	}
	if err != nil || !reflect.DeepEqual(got, value) {
		t.Fatalf("%T as arrays: %v", value, err)
	}
	return packed, plain
}

type (
	temperatures []float32
	celsius      float64
	series       struct {
		Name   string          `json:"name"`
		Values []celsius       `json:"values"`
		At     []time.Duration `json:"at"`
		Next   *series         `json:"next"`
	}
)

func TestPackedLists(t *testing.T) {
	const count = 200
	checks := []func() (packed, plain []byte){
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) bool { return i%3 == 0 }))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) int { return i - count/2 }))
		},
		func() ([]byte, []byte) { return packedRoundTrip(t, listOf(count, func(i int) int8 { return int8(i) })) },
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) int16 { return int16(i * 999) }))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) int32 { return math.MinInt32 + int32(i) }))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) int64 { return math.MaxInt64 - int64(i) }))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) uint16 { return uint16(i * 999) }))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) uint32 { return math.MaxUint32 - uint32(i) }))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) uint64 { return math.MaxUint64 - uint64(i) }))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, temperatures(listOf(count, func(i int) float32 { return float32(i) / 3 })))
		},
		func() ([]byte, []byte) {
			return packedRoundTrip(t, listOf(count, func(i int) float64 { return float64(i) / 3 }))
		},
		func() ([]byte, []byte) {
			row := listOf(count, func(i int) float64 { return float64(i) })
			return packedRoundTrip(t, [][]float64{row, {1}, row, {}})
		},
		func() ([]byte, []byte) {
			inner := series{Name: "inner", Values: listOf(count, func(i int) celsius { return celsius(i) }), At: []time.Duration{1}}
			return packedRoundTrip(t, map[string]series{"x": {Values: []celsius{}, At: listOf(count, func(i int) time.Duration { return time.Duration(i) }), Next: &inner}})
		},
	}
	for i, check := range checks {
		if packed, plain := check(); bytes.Equal(packed, plain) {
			t.Errorf("value %d was not packed", i)
		}
	}
	for i, check := range []func() (packed, plain []byte){
		func() ([]byte, []byte) { return packedRoundTrip(t, []float64{1, 2, 3}) },
		func() ([]byte, []byte) { return packedRoundTrip(t, []int64{}) },
		func() ([]byte, []byte) { return packedRoundTrip(t, bytes.Repeat([]byte{1}, count)) },
		func() ([]byte, []byte) { return packedRoundTrip(t, listOf(count, func(int) string { return "x" })) },
		func() ([]byte, []byte) { return packedRoundTrip(t, listOf(count, func(i int) any { return int64(i) })) },
	} {
		if packed, plain := check(); !bytes.Equal(packed, plain) {
			t.Errorf("other value %d was packed", i)
		}
	}
}

func TestADecodedBlockIsTheReceivers(t *testing.T) {
	by, err := codec.For[[]float64](codec.PackLists, codec.AliasBytes)
	if err != nil {
		t.Fatal(err)
	}
	value := listOf(100, func(i int) float64 { return float64(i) })
	src, _ := by.Append(nil, &value)
	var got []float64
	if _, err := by.Decode(src, &got); err != nil {
		t.Fatal(err)
	}
	clear(src)
	if got = append(got, 100); !reflect.DeepEqual(got, append(value, 100)) {
		t.Error("a decoded list changes with what it was decoded from")
	}
}

// TestWhereABlockIsStored: in the payload, if that may be kept and the block is aligned; in the
// memory that the value has; or else in memory of its own.
func TestWhereABlockIsStored(t *testing.T) {
	by, err := codec.For[[]float64](codec.PackLists)
	if err != nil {
		t.Fatal(err)
	}
	value := listOf(100, func(i int) float64 { return float64(i) })
	block, _ := by.Append(nil, &value)
	for _, shift := range []int{0, 1} {
		payload := append(make([]byte, shift, 2000), block...)[shift:]
		beside := new(codec.Beside)
		beside.Keep(len(payload))
		var got []float64
		if _, err := by.DecodeWith(beside, payload, &got); err != nil || !reflect.DeepEqual(got, value) {
			t.Fatalf("at %d: %v", shift, err)
		}
		clear(payload)
		if keeps := got[99] == 0; beside.Kept != keeps || beside.Kept != (shift == 0) {
			t.Errorf("at %d: kept %v, changes with the payload %v", shift, beside.Kept, keeps)
		}
	}
	room := make([]float64, 3, 150)
	former := &room[0]
	for _, count := range []int{50, 150, 20, 100, 1000} {
		value := listOf(count, func(i int) float64 { return float64(i + 1) })
		block, _ := by.Append(nil, &value)
		if _, err := by.DecodeWith(&codec.Beside{Reuses: true}, block, &room); err != nil || !reflect.DeepEqual(room, value) {
			t.Fatalf("%d: %d numbers, %v", count, len(room), err)
		}
		if reused := &room[0] == former; reused != (count <= 150) {
			t.Errorf("%d numbers: in the memory that there was: %v", count, reused)
		}
	}
}

func TestABlockOfAnotherTypeIsRefused(t *testing.T) {
	src := append(msgpack.AppendPackedHead(nil, msgpack.ElementInt32, 8), 1, 0, 0, 0, 2, 0, 0, 0)
	refuses := func(name string, decode func() error, want string) {
		t.Helper()
		if err := decode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	refuses("float64", func() error { return decodeAs[[]float64](src) }, "a packed list of int32 came where a list of float64 is expected")
	refuses("uint32", func() error { return decodeAs[[]uint32](src) }, "a list of uint32 is expected")
	refuses("strings", func() error { return decodeAs[[]string](src) }, "packed list came where list is expected")
	refuses("map", func() error { return decodeAs[map[string]int32](src) }, "packed list came where map is expected")
	refuses("bytes", func() error { return decodeAs[[]byte](src) }, "packed list came where bytes is expected")
	refuses("number", func() error { return decodeAs[int32](src) }, "packed list came where int32 is expected")
	if err := decodeAs[any](src); err != nil {
		t.Errorf("any: %v", err)
	}
}

func decodeAs[T any](src []byte) error {
	by, err := codec.For[T]()
	if err != nil {
		return err
	}
	var value T
	_, err = by.Decode(src, &value)
	return err
}

func TestPackedListsInJSON(t *testing.T) {
	src := append(msgpack.AppendPackedHead(nil, msgpack.ElementFloat32, 8), 0, 0, 0xC0, 0x3F, 0, 0, 0, 0)
	float := schema.Type{Kind: schema.Float32}
	for _, element := range []schema.Type{{Kind: schema.List, Element: &float}, {Kind: schema.Any}} {
		out, rest, err := codec.AppendJSON(nil, element, nil, src)
		if want := map[schema.Kind]string{schema.List: "[1.5,0]", schema.Any: "[1.5,0.0]"}[element.Kind]; err != nil || len(rest) != 0 || string(out) != want {
			t.Errorf("%v: %s, %v", element, out, err)
		}
	}
	values, err := codec.RequestValues(wire.CodecPacked, append([]byte{0x91}, src...))
	if err != nil || !reflect.DeepEqual(values, []any{[]any{1.5, 0.0}}) {
		t.Errorf("%v, %v", values, err)
	}
	values, err = codec.ReplyValues(wire.CodecPacked, src)
	if err != nil || !reflect.DeepEqual(values, []any{[]any{1.5, 0.0}}) {
		t.Errorf("%v, %v", values, err)
	}
}

func TestAppendPacking(t *testing.T) {
	long := listOf(100, func(i int) float64 { return float64(i) })
	for _, test := range []struct {
		value  any
		packs  bool
		blocks bool
	}{
		{nil, false, false}, {1, false, false}, {"x", false, false}, {[]byte{1}, false, false}, {time.Time{}, false, false},
		{[]any{long}, false, false}, {map[string]any{"a": long}, false, false}, {[]string{"a"}, false, false},
		{[]float64{1}, true, false}, {long, true, true}, {struct{ A []float64 }{long}, true, true}, {&long, true, true},
	} {
		out, packs, err := codec.AppendPacking(nil, []byte("kept"), test.value)
		if err != nil || packs != test.packs || !bytes.HasPrefix(out, []byte("kept")) {
			t.Errorf("%T: packs %v, %v", test.value, packs, err)
		}
		plain, _ := codec.AppendValue([]byte("kept"), test.value)
		if bytes.Equal(out, plain) == test.blocks {
			t.Errorf("%T: blocks %v", test.value, !test.blocks)
		}
	}
}

func BenchmarkPackedFloats(b *testing.B) {
	value := listOf(100_000, func(i int) float64 { return float64(i) })
	for name, options := range map[string][]codec.Option{"block": {codec.PackLists}, "array": nil} {
		by, err := codec.For[[]float64](options...)
		if err != nil {
			b.Fatal(err)
		}
		src, _ := by.Append(nil, &value)
		b.Run(name+"/append", func(b *testing.B) {
			b.ReportAllocs()
			for dst := []byte(nil); b.Loop(); {
				dst, _ = by.Append(dst[:0], &value)
			}
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var got []float64
				if _, err := by.Decode(src, &got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
