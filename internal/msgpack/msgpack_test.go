package msgpack_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/tinylib/msgp/msgp"
)

func nested(levels int) []byte {
	return append(bytes.Repeat([]byte{0x91}, levels), 0xC0)
}

func TestNestingIsBounded(t *testing.T) {
	for _, test := range []struct {
		levels, depth int
		ok            bool
	}{
		{wire.NestingDepthMax, 0, true},
		{wire.NestingDepthMax + 1, 0, false},
		{wire.NestingDepthMax - 1, 1, true},
		{wire.NestingDepthMax, 1, false},
		{1_000_000, 0, false},
	} {
		src := nested(test.levels)
		rest, err := msgpack.Skip(src, test.depth)
		if (err == nil) != test.ok || err == nil && len(rest) != 0 {
			t.Errorf("skip %d levels in %d: %d bytes left, %v", test.levels, test.depth, len(rest), err)
		}
		if _, _, err := msgpack.ReadAny(src, test.depth); (err == nil) != test.ok {
			t.Errorf("read %d levels in %d: %v", test.levels, test.depth, err)
		}
	}
}

func TestSkipPassesOneValue(t *testing.T) {
	for _, value := range []string{
		"c0", "c3", "7f", "e0", "cb3ff0000000000000", "a3616263", "d903616263", "c403616263", "d40110",
		"d6ff5a4af6a5", "c70c05000000000000000000000000", "80", "90", "8201029303a0c0a161", "dc0002c0c0", "df00000001a161dd00000000",
	} {
		src, _ := hex.DecodeString(value)
		rest, err := msgpack.Skip(append(bytes.Clone(src), 0xC1), 0)
		if err != nil || len(rest) != 1 {
			t.Errorf("%s: %d bytes left, want 1; %v", value, len(rest), err)
		}
		for cut := range src {
			if _, err := msgpack.Skip(src[:cut], 0); err == nil {
				t.Errorf("%s cut to %d bytes was accepted", value, cut)
			}
		}
	}
}

func TestHostileLengthsAllocateNothing(t *testing.T) {
	for _, value := range []string{
		"ddffffffff", "ddffffffffc0", "dfffffffff", "dfffffffffc0c0", "dbffffffff61", "c6ffffffff61", "c9ffffffffff61",
		"dcffff", "deffff", "91ddffffffff", "81a161dfffffffff",
	} {
		src, _ := hex.DecodeString(value)
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if _, _, err := msgpack.ReadAny(src, 0); err == nil {
				t.Fatalf("%s was accepted", value)
			}
			if _, err := msgpack.Skip(src, 0); err == nil {
				t.Fatalf("%s was skipped", value)
			}
		}
		runtime.ReadMemStats(&after)
		if spent := (after.TotalAlloc - before.TotalAlloc) / runs; spent > 16<<10 {
			t.Errorf("%s: %d bytes allocated for a claim", value, spent)
		}
	}
}

func TestErrorsSayWhatCame(t *testing.T) {
	readInt8 := func(src []byte) error { _, _, err := msgpack.ReadInt(src, 8); return err }
	readUint8 := func(src []byte) error { _, _, err := msgpack.ReadUint(src, 8); return err }
	readText := func(src []byte) error { _, _, err := msgpack.ReadText(src); return err }
	readTime := func(src []byte) error { _, _, err := msgpack.ReadTime(src); return err }
	readAny := func(src []byte) error { _, _, err := msgpack.ReadAny(src, 0); return err }
	for _, test := range []struct {
		read func([]byte) error
		src  string
		want string
	}{
		{readInt8, "cd012c", "300 does not fit int8"},
		{readInt8, "cfffffffffffffffff", "18446744073709551615 does not fit int8"},
		{readInt8, "a161", "string came where int8 is expected"},
		{readInt8, "", "the data ends within a value"},
		{readInt8, "cd01", "the data ends within a value"},
		{readUint8, "ff", "-1 does not fit uint8"},
		{readUint8, "cb3ff8000000000000", "float came where uint8 is expected"},
		{readText, "c40161", "bytes came where string is expected"},
		{readText, "a1ff", "not valid UTF-8"},
		{readTime, "d60500000000", "where time is expected"},
		{readTime, "c70c05000000000000000000000000", "where time is expected"},
		{readTime, "c70cffffffffff0000000000000000", "timestamp is malformed"},
		{readTime, "d6ff", "the data ends within a value"},
		{readAny, "c1", "0xC1 begins no MessagePack value"},
		{readAny, "d40310", "extension came where any is expected"},
		{readAny, "d40100", "descriptor came where any is expected"},
		{readAny, "81c0c0", "map key: nil came where string is expected"},
		{readAny, "8201c0a161c0", "map key: string came where int64 is expected"},
	} {
		src, _ := hex.DecodeString(test.src)
		if err := test.read(src); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.src, err, test.want)
		}
	}
}

func TestIntegersForFloatsAreExact(t *testing.T) {
	for _, number := range []int64{0, -1, 1 << 53, 1<<53 + 2, -(1 << 53), math.MinInt64, math.MaxInt64 - 1023} {
		value, rest, err := msgpack.ReadFloat(msgp.AppendInt64(nil, number))
		if err != nil || value != float64(number) || int64(value) != number || len(rest) != 0 {
			t.Errorf("%d: %v, %v", number, value, err)
		}
	}
	for _, number := range []int64{1<<53 + 1, -(1<<53 + 1), math.MaxInt64} {
		if value, _, err := msgpack.ReadFloat(msgp.AppendInt64(nil, number)); err == nil {
			t.Errorf("%d became %v", number, value)
		}
	}
	if value, _, err := msgpack.ReadFloat(msgp.AppendUint64(nil, math.MaxUint64-2047)); err != nil || value != math.MaxUint64-2047 {
		t.Errorf("the largest uint64 that is a float64: %v, %v", value, err)
	}
	if value, _, err := msgpack.ReadFloat(msgp.AppendUint64(nil, math.MaxUint64)); err == nil {
		t.Errorf("the largest uint64 became %v", value)
	}
}

func TestAnyRoundTrip(t *testing.T) {
	moment := time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	for _, value := range []any{
		nil, true, false, int64(0), int64(-1), int64(math.MinInt64), int64(math.MaxInt64), uint64(math.MaxUint64),
		1.5, math.Inf(1), "", "text", strings.Repeat("ä", 40_000), []byte{}, []byte{0, 255}, moment, time.Time{},
		time.Unix(1, 0).UTC(), time.Unix(1<<34, 1).UTC(), []any{}, []any{int64(1), []any{"x"}},
		map[string]any{}, map[string]any{"a": map[int64]any{-1: nil}},
	} {
		encoded, err := msgpack.AppendAny(nil, value, 0, msgpack.Other{})
		if err != nil {
			t.Fatalf("%v: %v", value, err)
		}
		got, rest, err := msgpack.ReadAny(encoded, 0)
		if err != nil || len(rest) != 0 || !reflect.DeepEqual(got, value) {
			t.Errorf("%#v came back as %#v, %v", value, got, err)
		}
	}
}

func TestAppendAnyRefuses(t *testing.T) {
	loop := []any{nil}
	loop[0] = loop
	around := map[string]any{}
	around["again"] = around
	for _, value := range []any{loop, around, "\xff", map[string]any{"\xff": nil}, make(chan int), struct{}{}} {
		if _, err := msgpack.AppendAny(nil, value, 0, msgpack.Other{}); err == nil {
			t.Errorf("%T was accepted", value)
		}
	}
}

// The public test suite lists every legal encoding of its values. It is read
// from where NEARCALL_MSGPACK_SUITE says.
func TestPublicSuite(t *testing.T) {
	path := os.Getenv("NEARCALL_MSGPACK_SUITE")
	if path == "" {
		t.Log("NEARCALL_MSGPACK_SUITE names no file, so that only this package's own vectors are tested")
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var suite map[string][]map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&suite); err != nil {
		t.Fatal(err)
	}
	count := 0
	for name, entries := range suite {
		for _, entry := range entries {
			for _, encoding := range entry["msgpack"].([]any) {
				src, err := hex.DecodeString(strings.ReplaceAll(encoding.(string), "-", ""))
				if err != nil {
					t.Fatal(err)
				}
				checkSuiteEntry(t, name, entry, src)
				count++
			}
		}
	}
	if count < 200 {
		t.Errorf("the suite held only %d encodings", count)
	}
}

func checkSuiteEntry(t *testing.T, name string, entry map[string]any, src []byte) {
	t.Helper()
	if rest, err := msgpack.Skip(src, 0); err != nil || len(rest) > 0 {
		t.Errorf("%s: %x: %d bytes left after skipping, %v", name, src, len(rest), err)
	}
	got, _, err := msgpack.ReadAny(src, 0)
	if _, isExtension := entry["ext"]; isExtension {
		if err == nil {
			t.Errorf("%s: %x: an unknown extension was accepted", name, src)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %x: %v", name, src, err)
		return
	}
	if !sameAsSuite(entry, got) {
		t.Errorf("%s: %x: %#v, want %v", name, src, got, entry)
	}
}

func sameAsSuite(entry map[string]any, got any) bool {
	if number, ok := entry["bignum"].(string); ok {
		want, _, _ := big.ParseFloat(number, 10, 80, big.ToNearestEven)
		return exact(got).Cmp(want) == 0
	}
	if pair, ok := entry["timestamp"].([]any); ok {
		seconds, _ := pair[0].(json.Number).Int64()
		nanoseconds, _ := pair[1].(json.Number).Int64()
		return got.(time.Time).Equal(time.Unix(seconds, nanoseconds))
	}
	if text, ok := entry["binary"].(string); ok {
		want, _ := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		return bytes.Equal(got.([]byte), want)
	}
	for _, kind := range []string{"nil", "bool", "number", "string", "array", "map"} {
		if want, ok := entry[kind]; ok {
			return sameJSON(want, got)
		}
	}
	return false
}

func exact(number any) *big.Float {
	value := new(big.Float).SetPrec(80)
	switch n := number.(type) {
	case int64:
		return value.SetInt64(n)
	case uint64:
		return value.SetUint64(n)
	}
	return value.SetFloat64(number.(float64))
}

func sameJSON(want, got any) bool {
	switch w := want.(type) {
	case json.Number:
		value, _, _ := big.ParseFloat(w.String(), 10, 80, big.ToNearestEven)
		return exact(got).Cmp(value) == 0
	case []any:
		list, ok := got.([]any)
		same := ok && len(list) == len(w)
		for i := 0; same && i < len(w); i++ {
			same = sameJSON(w[i], list[i])
		}
		return same
	case map[string]any:
		pairs, ok := got.(map[string]any)
		same := ok && len(pairs) == len(w)
		for key := range w {
			same = same && sameJSON(w[key], pairs[key])
		}
		return same
	}
	return reflect.DeepEqual(want, got)
}
