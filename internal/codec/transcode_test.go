package codec_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/schema"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

func typeOf(t testing.TB, value any) (schema.Type, schema.Types) {
	t.Helper()
	made, types, err := schema.FromGoType(reflect.TypeOf(value).Elem())
	if err != nil {
		t.Fatal(err)
	}
	return made, types
}

func TestJSONBothWays(t *testing.T) {
	for _, test := range []struct {
		target     any
		json, back string
	}{
		{new(bool), ` true `, `true`},
		{new(int8), `-128`, `-128`}, {new(int8), `"127"`, `127`},
		{new(int64), `9223372036854775807`, `9223372036854775807`}, {new(int64), `"-9223372036854775808"`, `-9223372036854775808`},
		{new(uint64), `18446744073709551615`, `18446744073709551615`}, {new(uint8), `255`, `255`},
		{new(float64), `1e300`, `1e+300`}, {new(float64), `"0.1"`, `0.1`}, {new(float64), `3`, `3`}, {new(float32), `0.1`, `0.1`},
		{new(string), `"a\"\\\/\b\f\n\r\t\u00e4\ud83c\udf7a` + "\u2028" + `"`, `"a\"\\/\b\f\n\r\tä🍺` + "\u2028" + `"`},
		{new(string), `"\u0001"`, `"\u0001"`},
		{new([]byte), `"AP8="`, `"AP8="`}, {new([]byte), `""`, `""`},
		{new(time.Time), `"2026-01-31T12:00:00.5+01:00"`, `"2026-01-31T11:00:00.5Z"`},
		{new(time.Duration), `1500`, `1500`}, {new(time.Duration), `"1.5s"`, `1500000000`},
		{new(time.Duration), `"-.5us1.0h0.50ms"`, `-3600000500500`}, {new(time.Duration), `"0.0001220703125h"`, `439453125`},
		{new(time.Duration), `"-9223372036.854775808s"`, `-9223372036854775808`},
		{new(time.Time), `"2026-01-31T12:00:00.123456789000Z"`, `"2026-01-31T12:00:00.123456789Z"`},
		{new(string), `"\\ud800\\\ud83c\udf7a"`, `"\\ud800\\🍺"`},
		{new(*int), `null`, `null`}, {new(*int), `5`, `5`},
		{new([]int), `[ ]`, `[]`}, {new([]*string), ` [ "a" , null ] `, `["a",null]`},
		{new([]int), "[" + strings.Repeat("1,", 69_999) + "1]", "[" + strings.Repeat("1,", 69_999) + "1]"},
		{new([]int), "[" + strings.Repeat("1,", 15) + "1]", "[" + strings.Repeat("1,", 15) + "1]"},
		{new(map[string]int), `{"b":1}`, `{"b":1}`}, {new(map[int8]int), `{"-5":1}`, `{"-5":1}`},
		{new(inner), `{"depth":7}`, `{"depth":7}`},
		{new(outer), `{"next":{"all":[{"name":"x"},{}]}}`, `{"next":{"all":[{"name":"x"},{}]}}`},
		{new(any), `[1,-1,1.0,18446744073709551615,18446744073709551616,"s",true,null,{"a":[]}]`,
			`[1,-1,1.0,18446744073709551615,1.8446744073709552e+19,"s",true,null,{"a":[]}]`},
	} {
		made, types := typeOf(t, test.target)
		encoded, err := codec.AppendFromJSON([]byte("kept"), made, types, []byte(test.json))
		if err != nil {
			t.Errorf("%s from %.80s: %v", made, test.json, err)
			continue
		}
		// What JSON became, a Go value of the type must be able to hold.
		plan, err := codec.NewPlan(reflect.TypeOf(test.target).Elem())
		if err != nil {
			t.Fatal(err)
		}
		if rest, err := plan.Decode(encoded[4:], reflect.ValueOf(test.target).Elem()); err != nil || len(rest) > 0 {
			t.Errorf("%s from %.80s: decode %.80x: %v", made, test.json, encoded, err)
		}
		back, rest, err := codec.AppendJSON([]byte("kept"), made, types, append(encoded[4:], 1, 2))
		if err != nil || string(back) != "kept"+test.back || len(rest) != 2 {
			t.Errorf("%s from %.80s came back as %.80s, %v", made, test.json, back, err)
		}
	}
}

func TestFromJSONRefuses(t *testing.T) {
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, test := range []struct {
		target any
		json   string
		want   string
	}{
		{new(int8), `300`, "300 does not fit int8"},
		{new(uint8), `-1`, "-1 does not fit uint8"},
		{new(int64), `1.5`, `"1.5" is not a whole number`},
		{new(int64), `1e3`, `"1e3" is not a whole number`},
		{new(int64), `""`, `"" is not a whole number`},
		{new(int64), `"0x10"`, `is not a whole number`},
		{new(int64), `true`, "bool came where int64 is expected"},
		{new(int64), `null`, "nil came where int64 is expected"},
		{new(float64), `1e999`, "1e999 does not fit float64"},
		{new(float32), `1e39`, "1e39 does not fit float32"},
		{new(float64), `"NaN"`, "not a decimal number"},
		{new(float64), `"1_0"`, "not a decimal number"},
		{new(bool), `1`, "number came where bool is expected"},
		{new(bool), `"true"`, "string came where bool is expected"},
		{new(string), `1`, "number came where string is expected"},
		{new(string), "\"\xff\"", "not valid UTF-8"},
		{new(string), `"a\ud800"`, `\ud800 is half a character`},
		{new(string), `"\\\udc00\ud800"`, `\udc00 is half a character`},
		{new(string), `"\uD83Cx"`, `\uD83C is half a character`},
		{new(any), `["\ud83c\u0041"]`, `\ud83c is half a character`},
		{new(map[string]int), `{"\ud800":1}`, `half a character`},
		{new([]byte), `"?"`, "written in base64"},
		{new([]byte), `"QR=="`, "written in base64"},
		{new(time.Time), `"2026-01-31T12:00:00.1234567891Z"`, "digits below a nanosecond"},
		{new(time.Duration), `"0.1ns"`, `"0.1ns" has digits below a nanosecond`},
		{new(time.Duration), `"-1h1.0000000009s"`, "digits below a nanosecond"},
		{new(time.Duration), `"0.00000000000001h"`, "digits below a nanosecond"},
		{new(time.Duration), `"1.s.s"`, "not a duration"},
		{new(time.Duration), `"1.5"`, "not a duration"},
		{new(time.Duration), `"."`, "not a duration"},
		{new(time.Duration), `".s"`, "not a duration"},
		{new(time.Time), `"today"`, "RFC 3339"},
		{new(time.Time), `"0000-01-01T00:00:00+23:59"`, "years 0 to 9999"},
		{new(time.Duration), `"soon"`, "not a duration"},
		{new([]int), `{}`, "map came where list is expected"},
		{new([]int), `[1,"x"]`, "element 1: "},
		{new(map[string]int), `[]`, "list came where map is expected"},
		{new(map[int8]int), `{"300":1}`, `key "300": 300 does not fit int8`},
		{new(inner), `{"dept":1}`, `inner has no field "dept"; it has depth`},
		{new(outer), `{"next":{"depth":300}}`, "field next: field depth: 300"},
		{new(int64), ``, "malformed"},
		{new(int64), `1 2`, "malformed"},
		{new([]int), `[1,]`, "malformed"},
		{new(any), deep(wire.NestingDepthMax + 1), "nested deeper"},
		{new(any), deep(1_000_000), "malformed"},
	} {
		made, types := typeOf(t, test.target)
		out, err := codec.AppendFromJSON([]byte("kept"), made, types, []byte(test.json))
		if err == nil || !strings.Contains(err.Error(), test.want) || string(out) != "kept" {
			t.Errorf("%s from %.40s: %q, %v, want %q", made, test.json, out, err, test.want)
		}
	}
	made, types := typeOf(t, new(any))
	if _, err := codec.AppendFromJSON(nil, made, types, []byte(deep(wire.NestingDepthMax))); err != nil {
		t.Errorf("%d levels: %v", wire.NestingDepthMax, err)
	}
}

func TestToJSONRefuses(t *testing.T) {
	for _, test := range []struct {
		target any
		value  any
		want   string
	}{
		{new(float64), math.NaN(), "NaN has no JSON form"},
		{new(any), math.Inf(1), "+Inf has no JSON form"},
		{new(time.Time), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), "years 0 to 9999"},
		{new(int8), 300, "300 does not fit int8"},
		{new(float32), 1e300, "does not fit float32"},
		{new([]int8), []any{1, 300}, "element 1: 300 does not fit int8"},
		{new(string), 1, "integer came where string is expected"},
	} {
		made, types := typeOf(t, test.target)
		encoded, err := codec.AppendValue(nil, test.value)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := codec.AppendJSON([]byte("kept"), made, types, encoded)
		if err == nil || !strings.Contains(err.Error(), test.want) || string(out) != "kept" {
			t.Errorf("%v as %s: %q, %v, want %q", test.value, made, out, err, test.want)
		}
	}
}

func TestToJSONLeavesOutUnknownFields(t *testing.T) {
	made, types := typeOf(t, new(inner))
	src, _ := hex.DecodeString("83a1789191c0a5646570746805a17980")
	out, _, err := codec.AppendJSON(nil, made, types, src)
	if err != nil || string(out) != `{"depth":5}` {
		t.Errorf("%s, %v", out, err)
	}
}

func describe(t testing.TB, fn any) *schema.Function {
	t.Helper()
	signature, err := schema.SignatureOf(reflect.TypeOf(fn))
	if err != nil {
		t.Fatal(err)
	}
	f, err := schema.FromGoFunction("f", signature, schema.GoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestArgumentsFromJSON(t *testing.T) {
	two, variadic := describe(t, func(int8, *string) {}), describe(t, func(string, ...inner) {})
	for _, test := range []struct {
		f          *schema.Function
		json, want string
	}{
		{two, `[1, "a"]`, "9201a161"}, {two, `[1]`, "9101"}, {two, `[1,null]`, "9201c0"},
		{variadic, `["a"]`, "91a161"}, {variadic, `["", {"depth":1}, {}]`, "93a081a564657074680180"},
		{two, `[]`, "f takes 1 to 2 arguments; 0 came, and argument 1 (arg1) is missing"},
		{two, `[1,"a",2]`, "f takes 1 to 2 arguments; 3 came"},
		{two, `[300]`, "argument 1 (arg1): 300 does not fit int8"},
		{variadic, `["",{},{"depth":300}]`, "argument 3 (arg2): field depth: 300 does not fit int8"},
		{two, `{}`, "map came where list is expected"},
		{two, ``, "malformed"},
	} {
		out, err := codec.AppendArgumentsFromJSON(nil, nil, test.f, []byte(test.json))
		if got := hex.EncodeToString(out); got != test.want && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %s, %v, want %s", test.json, got, err, test.want)
		}
	}
}

func TestResultsAsJSON(t *testing.T) {
	none, one, two := describe(t, func() {}), describe(t, func() []byte { return nil }), describe(t, func() (int, string) { return 0, "" })
	for _, test := range []struct {
		f         *schema.Function
		src, want string
	}{
		{none, "c0", "null"}, {one, "c40100", `"AA=="`}, {two, "9201a161", `[1,"a"]`},
		{two, "9101", "1 results came where 2 are expected"}, {two, "c0", "0 results came where 2"},
		{two, "920101", "result 2: integer came where string is expected"},
		{one, "c40100c0", "1 bytes follow the result"}, {none, "", "the data ends within a value"},
	} {
		src, _ := hex.DecodeString(test.src)
		out, err := codec.AppendResultsJSON(nil, test.f, src)
		if string(out) != test.want && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %s, %v, want %s", test.src, out, err, test.want)
		}
	}
}

func TestArgumentsFromText(t *testing.T) {
	for _, test := range []struct {
		fn    any
		texts []string
		want  string
	}{
		{func(int, string, []byte) {}, []string{"-3", "4", "5"}, `[-3,"4","NQ=="]`},
		{func(bool, float64, time.Duration) {}, []string{"true", "1e3", "2ms"}, `[true,1000,2000000]`},
		{func(*int, *string) {}, []string{"null", "null"}, `[null,null]`},
		{func(*int, *string) {}, []string{"7"}, `[7]`},
		{func([]int, inner, map[string]bool) {}, []string{"[1]", `{"depth":2}`, `{"a":true}`}, `[[1],{"depth":2},{"a":true}]`},
		{func(...any) {}, []string{"1", "x", `"x"`, "1.5", "[", "null", "[1]"}, `[1,"x","x",1.5,"[",null,[1]]`},
		{func(time.Time) {}, []string{"2026-01-31T12:00:00Z"}, `["2026-01-31T12:00:00Z"]`},
		{func(int8) {}, []string{"300"}, "argument 1 (arg1): 300 does not fit int8"},
		{func(bool) {}, []string{"yes"}, `"yes" is not a bool`},
		{func(time.Duration) {}, []string{"0"}, `[0]`},
		{func(time.Duration) {}, []string{"5"}, `argument 1 (arg1): "5" is not a duration: write a number and its unit, such as 1.5s or 20ms`},
		{func(*time.Duration) {}, []string{"5"}, `write a number and its unit`},
		{func(string) {}, []string{"\xff"}, "not valid UTF-8"},
		{func(any) {}, []string{"\xff"}, "not valid UTF-8"},
		{func([]int) {}, []string{"1"}, "number came where list is expected"},
		{func() {}, []string{"1"}, "f takes 0 arguments; 1 came"},
	} {
		f := describe(t, test.fn)
		out, err := codec.AppendArgumentsFromText([]byte("kept"), f, test.texts)
		if err != nil {
			if !strings.Contains(err.Error(), test.want) || string(out) != "kept" {
				t.Errorf("%q: %q, %v, want %s", test.texts, out, err, test.want)
			}
			continue
		}
		fromJSON, err := codec.AppendArgumentsFromJSON(nil, []byte("kept"), f, []byte(test.want))
		if err != nil || !bytes.Equal(out, fromJSON) {
			t.Errorf("%q became %x, want %x; %v", test.texts, out, fromJSON, err)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct{ failure, want status.Error }{
		{status.Error{Message: "m"}, status.Error{Message: "m"}},
		{status.Error{}, status.Error{}},
		{status.Error{Message: "\xff", Details: []status.Detail{{Type: "a", Value: []string{"x"}}, {Type: "b", Value: make(chan int)}}},
			status.Error{Message: "\uFFFD", Details: []status.Detail{{Type: "a", Value: []any{"x"}},
				{Type: "b", Value: "this detail cannot be encoded: type chan int is not supported: it has no meaning in another process"}}}},
		{status.Error{Message: strings.Repeat("x", wire.ErrorMessageBytesMax-1) + "ä"}, status.Error{Message: strings.Repeat("x", wire.ErrorMessageBytesMax-1)}},
	} {
		message, details, err := codec.DecodeFailure(codec.AppendFailure(nil, &test.failure))
		if err != nil || message != test.want.Message || !reflect.DeepEqual(details, test.want.Details) {
			t.Errorf("%q, %v, %v", message, details, err)
		}
	}
	for _, src := range []string{"", "c0", "9190", "92a0c090", "93a09090", "92a090c0", "9201c0", "92a09191a0", "92a0dcffff", "92a09192a1ffc0"} {
		data, _ := hex.DecodeString(src)
		if _, _, err := codec.DecodeFailure(data); err == nil {
			t.Errorf("%s was accepted", src)
		}
	}
}

// FuzzTranscode: what JSON becomes must come back as JSON that becomes the
// same; and whatever MessagePack becomes JSON, valid JSON it is.
func FuzzTranscode(f *testing.F) {
	made, types := typeOf(f, new(outer))
	list, _ := typeOf(f, new([]any))
	for _, text := range []string{`{}`, `{"name":"x","blob":"AA==","age":1,"numbers":{"1":1.5},"next":null,"all":[{}]}`,
		`[1,1.5,"\ud800",{"a":[[]]}]`, `{"moment":"2026-01-31T12:00:00Z","pause":"1s","value":{"":null}}`} {
		f.Add([]byte(text))
	}
	value := sample()
	encoded, err := codec.AppendValue(nil, &value)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, target := range []schema.Type{made, list} {
			if out, _, err := codec.AppendJSON(nil, target, types, src); err == nil && !json.Valid(out) {
				t.Errorf("%x became %q", src, out)
			}
			first, err := codec.AppendFromJSON(nil, target, types, src)
			if err != nil {
				continue
			}
			text, rest, err := codec.AppendJSON(nil, target, types, first)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%q became %x, which has no JSON: %v", src, first, err)
			}
			second, err := codec.AppendFromJSON(nil, target, types, text)
			if err != nil || !bytes.Equal(first, second) {
				t.Errorf("%q became %x, %q and %x; %v", src, first, text, second, err)
			}
		}
	})
}

// TestDetailsHoldNoDurations: nobody tells a caller what type the value of a detail had.
func TestDetailsHoldNoDurations(t *testing.T) {
	for name, value := range map[string]any{
		"a duration": time.Second, "in a list": []time.Duration{1}, "in a map": map[string]time.Duration{"a": 1},
		"in any": []any{time.Second}, "in a struct": struct{ Wait time.Duration }{1},
	} {
		failure := status.Error{Code: status.Unavailable, Details: []status.Detail{{Type: "retry", Value: value}}}
		_, details, err := codec.DecodeFailure(codec.AppendFailure(nil, &failure))
		if text, _ := details[0].Value.(string); err != nil || !strings.Contains(text, "cannot be encoded") {
			t.Errorf("%s arrived as %v, %v", name, details[0].Value, err)
		}
	}
}
