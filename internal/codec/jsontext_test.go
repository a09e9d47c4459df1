package codec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/codec"
)

// texts are JSON and what is close to it.
var texts = []string{
	``, ` `, `{`, `}`, `[`, `]`, `"`, `"\`, `"\u`, `"\u00`, `"\u00g0"`, `"\u00aF"`, `"\ud800"`, `"\x"`, "\"\x1f\"", "\"\x7f\"", `"\\\"\/\b\f\n\r\t"`,
	`true`, `tru`, `truee`, `True`, `false`, `null`, `nul`, `nan`, `Infinity`,
	`0`, `-0`, `-`, `+1`, `00`, `01`, `-01`, `1.`, `.5`, `1.5`, `1e`, `1e5`, `1E+5`, `1e-05`, `1e+`, `1.e5`, `0.0e0`, `0x10`, `1_0`, `-1.5e300`, `1a`,
	`[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,,2]`, `[1,[2,{"a":[]}]]`, `[1}`, `[1`, `[1,`, `[[]`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{,"a":1}`, `{"a" 1}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"a":2}`, `{"a":{"b":[null]}}`, `{"a"`, `{"a":1`, `{"a":1]`, `{1:2}`,
	"\t[\r\n1 , 2 ] ", "\v[1]", "\u00a0[1]", "[\"\xff\"]", `"ä🍺"`, strings.Repeat("[", 50) + strings.Repeat("]", 50),
}

// wantAsPackageJSON holds JSONEnd to what package json accepts. JSONEnd may leave what is
// deeply nested to that package.
func wantAsPackageJSON(t *testing.T, text []byte) {
	t.Helper()
	if !utf8.Valid(text) {
		return
	}
	end, ok := codec.JSONEnd(text, 0)
	isWhole := ok && codec.SkipJSONSpace(text, end) == len(text)
	if valid := json.Valid(text); isWhole != valid && (isWhole || strings.Count(string(text), "[")+strings.Count(string(text), "{") < 100) {
		t.Errorf("%q: a whole value %v, package json says %v", text, isWhole, valid)
	}
	if ok && !json.Valid(text[:end]) {
		t.Errorf("%q: no value ends at %d", text, end)
	}
}

func TestJSONEndAgreesWithPackageJSON(t *testing.T) {
	for _, text := range texts {
		wantAsPackageJSON(t, []byte(text))
		wantAsPackageJSON(t, []byte(`{"f":`+text+`}`))
		wantAsPackageJSON(t, []byte(`[0,`+text+` ] `))
	}
	// Hostile nesting is left to a reader that does not recurse.
	if _, ok := codec.JSONEnd([]byte(strings.Repeat("[", 1<<20)), 0); ok {
		t.Error("a text that does not end is a value")
	}
	for _, deep := range []string{strings.Repeat("[", 5000) + strings.Repeat("]", 5000), strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)} {
		if _, ok := codec.JSONEnd([]byte(deep), 0); ok {
			t.Error("JSONEnd judges what is nested 5000 times")
		}
	}
}

// FuzzJSONEnd: nothing is JSON for one that is not for the other.
func FuzzJSONEnd(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(wantAsPackageJSON)
}
