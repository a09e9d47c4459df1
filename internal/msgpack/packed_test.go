package msgpack_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
)

// blockOf is a block of elements that are given in hexadecimal.
func blockOf(t *testing.T, element msgpack.Element, elements string) []byte {
	t.Helper()
	data, err := hex.DecodeString(elements)
	if err != nil {
		t.Fatal(err)
	}
	return append(msgpack.AppendPackedHead(nil, element, len(data)), data...)
}

func TestPackedListsAsArrays(t *testing.T) {
	for _, test := range []struct {
		element  msgpack.Element
		elements string
		want     []any
	}{
		{msgpack.ElementBool, "0100", []any{true, false}},
		{msgpack.ElementInt8, "80ff7f", []any{int64(-128), int64(-1), int64(127)}},
		{msgpack.ElementInt16, "0080ff7f", []any{int64(-32768), int64(32767)}},
		{msgpack.ElementInt32, "00000080ffffff7f", []any{int64(math.MinInt32), int64(math.MaxInt32)}},
		{msgpack.ElementInt64, "0000000000000080" + "0100000000000000", []any{int64(math.MinInt64), int64(1)}},
		{msgpack.ElementUint8, "ff", []any{int64(255)}},
		{msgpack.ElementUint16, "ffff", []any{int64(65535)}},
		{msgpack.ElementUint32, "ffffffff", []any{int64(math.MaxUint32)}},
		{msgpack.ElementUint64, "ffffffffffffffff" + "0100000000000000", []any{uint64(math.MaxUint64), int64(1)}},
		{msgpack.ElementFloat32, "0000c03f", []any{1.5}},
		{msgpack.ElementFloat64, "000000000000f83f" + "000000000000f0ff", []any{1.5, math.Inf(-1)}},
		{msgpack.ElementFloat64, "", []any{}},
	} {
		src := append(blockOf(t, test.element, test.elements), 0xC0)
		got, rest, err := msgpack.ReadAny(src, 0)
		if err != nil || len(rest) != 1 || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v %s: %v, %d bytes left, %v", test.element, test.elements, got, len(rest), err)
		}
		if rest, err := msgpack.Skip(src, 0); err != nil || len(rest) != 1 {
			t.Errorf("%v %s: skipped with %d bytes left, %v", test.element, test.elements, len(rest), err)
		}
		for cut := range src[:len(src)-1] {
			if _, _, err := msgpack.ReadPacked(src[:cut], 0); err == nil {
				t.Errorf("%v %s, cut to %d bytes, was accepted", test.element, test.elements, cut)
			}
		}
	}
}

func TestPackedListsAreAligned(t *testing.T) {
	for before := range 17 {
		block := append(msgpack.AppendPackedHead(make([]byte, before), msgpack.ElementFloat64, 8), make([]byte, 8)...)
		if at := len(block) - 8; at%8 != 0 {
			t.Errorf("behind %d bytes, the first element is at %d", before, at)
		}
		if list, rest, err := msgpack.ReadPacked(block[before:], 0); err != nil || list.Count() != 1 || len(rest) != 0 {
			t.Errorf("behind %d bytes: %d elements, %d bytes left, %v", before, list.Count(), len(rest), err)
		}
	}
}

func TestEveryFormOfAPackedList(t *testing.T) {
	for form, count := range map[string]int{
		"d5020500": 0, "d602030001ff": 1, "d70207020000" + "01000000": 2, "d8020b06" + "aaaaaaaaaaaa" + "0000000000000000": 1,
		"c706020400" + "01000000": 1, "c80003020103" + "aa": -1, "c80006020103" + "aaaaaa" + "01": 1, "c90000000602040001000000": 1,
	} {
		src, _ := hex.DecodeString(form)
		list, rest, err := msgpack.ReadPacked(src, 0)
		if count < 0 && err == nil || count >= 0 && (err != nil || list.Count() != count || len(rest) != 0) {
			t.Errorf("%s: %v, %d bytes left, %v, want %d elements", form, list, len(rest), err, count)
		}
	}
}

func TestHostilePackedLists(t *testing.T) {
	for src, want := range map[string]string{
		"d6ff00000000":      "time came where packed list is expected",
		"c70002":            "has no head",
		"c7010205":          "has no head",
		"c702020000":        "elements of type 0",
		"c702020c00":        "elements of type 12 (1 to 11 are known)",
		"c70202ffff":        "elements of type 255",
		"c702020b01":        "1 bytes of padding, and 0 bytes follow",
		"c703020b0000":      "1 bytes, which are no whole number of float64",
		"c703020100" + "02": "element 0: 2 came where bool",
		"c904000000020b00":  "the data ends within a value",
		"c9ffffffff020b00":  "the data ends within a value",
		"91c0":              "list came where packed list is expected",
		"":                  "the data ends within a value",
	} {
		data, _ := hex.DecodeString(src)
		if _, _, err := msgpack.ReadPacked(data, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
	if _, _, err := msgpack.ReadPacked(blockOf(t, msgpack.ElementInt8, "01"), wire.NestingDepthMax); err == nil {
		t.Error("a block inside as many lists as there may be was accepted")
	}
}

func TestAppendPlain(t *testing.T) {
	block := blockOf(t, msgpack.ElementInt16, "0100ffff")
	src := append([]byte{0x93, 0xC3}, block...)
	src = append(append(src, 0x81, 0xA1, 'a', 0x92), append(block, 0xC0)...)
	src = append(src, 0x7F)
	want := []byte{0x93, 0xC3, 0x92, 0x01, 0xFF, 0x81, 0xA1, 'a', 0x92, 0x92, 0x01, 0xFF, 0xC0}
	out, rest, err := msgpack.AppendPlain([]byte("kept"), src, -1)
	if err != nil || !bytes.Equal(rest, []byte{0x7F}) || !bytes.Equal(out, append([]byte("kept"), want...)) {
		t.Errorf("% X, rest % X, %v", out, rest, err)
	}
	for cut := range len(src) - 1 {
		if _, _, err := msgpack.AppendPlain(nil, src[:cut], -1); err == nil {
			t.Errorf("cut to %d bytes it was accepted", cut)
		}
	}
	for _, test := range []struct {
		levels, depth int
		ok            bool
	}{{wire.NestingDepthMax, 0, true}, {wire.NestingDepthMax + 1, 0, false}, {wire.NestingDepthMax + 1, -1, true}, {wire.NestingDepthMax + 2, -1, false}} {
		if _, _, err := msgpack.AppendPlain(nil, nested(test.levels), test.depth); (err == nil) != test.ok {
			t.Errorf("%d levels at %d: %v", test.levels, test.depth, err)
		}
	}
}

func TestWhichListsAreWorthPacking(t *testing.T) {
	repeated := func(element msgpack.Element, count int, b ...byte) msgpack.Packed {
		return msgpack.Packed{Element: element, Data: bytes.Repeat(b, count)}
	}
	small, negative := []byte{127, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{0xFF}, 8)
	least := append(make([]byte, 7), 0x80)
	const long = wire.PackedIntegersBytes/8 + 1
	for _, test := range []struct {
		list msgpack.Packed
		want bool
	}{
		{repeated(msgpack.ElementInt64, 7, small...), false},
		{repeated(msgpack.ElementInt64, 8, small...), true},
		{repeated(msgpack.ElementBool, 63, 1), false},
		{repeated(msgpack.ElementBool, 64, 1), true},
		{repeated(msgpack.ElementInt64, long-1, small...), true},
		{repeated(msgpack.ElementInt64, long, small...), false},
		{repeated(msgpack.ElementInt64, long, negative...), false},
		{repeated(msgpack.ElementInt64, long, least...), true},
		{repeated(msgpack.ElementUint64, long, negative...), true},
		{repeated(msgpack.ElementInt8, long*8, 1), true},
		{repeated(msgpack.ElementFloat64, long, small...), true},
	} {
		if got := test.list.IsWorthPacking(); got != test.want {
			t.Errorf("%d of %v, the first % X: %v, want %v", test.list.Count(), test.list.Element, test.list.Data[:8], got, test.want)
		}
	}
}
