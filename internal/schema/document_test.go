package schema_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

type Greeted struct {
	Name string   `json:"name"`
	Age  *int64   `json:"age"`
	Tags []string `json:"tags"`
}

func function(t testing.TB, name string, fn any, options schema.GoOptions) *schema.Function {
	t.Helper()
	signature, err := schema.SignatureOf(reflect.TypeOf(fn))
	if err != nil {
		t.Fatal(err)
	}
	f, err := schema.FromGoFunction(name, signature, options)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func greet(t testing.TB) *schema.Function {
	return function(t, "greet", func(context.Context, Greeted) (string, error) { return "", nil },
		schema.GoOptions{Doc: "Greets \"a\" person.\u2028", ParamNames: []string{"person"}, Idempotent: true})
}

func document(t testing.TB, functions ...*schema.Function) *schema.Document {
	t.Helper()
	d, err := schema.NewDocument(functions)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const greetJSON = `{"doc":"Greets \"a\" person.` + "\u2028" + `",` +
	`"hash":"5b544d6c94e4ef69a420ba3b42a241c62dad89bc7cf9d4213511875ed95535f8","idempotent":true,"name":"greet",` +
	`"params":[{"name":"person","type":{"struct":"Greeted"}}],"results":["string"],` +
	`"types":{"Greeted":{"fields":[{"name":"name","type":"string"},{"name":"age","type":{"optional":"int64"}},` +
	`{"name":"tags","type":{"list":"string"}}]}}}`

func TestDescriptionAsJSON(t *testing.T) {
	if got := string(greet(t).JSON()); got != greetJSON {
		t.Errorf("got  %s\nwant %s", got, greetJSON)
	}
}

func TestDescriptionRoundTrip(t *testing.T) {
	for _, f := range []*schema.Function{
		greet(t),
		function(t, "echo", func(data []byte) []byte { return data }, schema.GoOptions{}),
		function(t, "sum", func(...int64) int64 { return 0 }, schema.GoOptions{ParamNames: []string{"numbers"}}),
		function(t, "nothing", func() {}, schema.GoOptions{}),
		function(t, "many", func(map[int8][]*Greeted, person) (int, any, error) { return 0, nil, nil }, schema.GoOptions{}),
	} {
		encoded := f.AppendMessagePack([]byte("before"))[len("before"):]
		got, rest, err := schema.ParseFunction(append(encoded, 0xC0))
		if err != nil || !bytes.Equal(rest, []byte{0xC0}) {
			t.Errorf("%s: %v, %x left", f.Name, err, rest)
			continue
		}
		if !bytes.Equal(got.JSON(), f.JSON()) || !bytes.Equal(got.AppendMessagePack(nil), encoded) {
			t.Errorf("%s came back as %s\nwant %s", f.Name, got.JSON(), f.JSON())
		}
	}
}

func TestRawAndVariadicAreFound(t *testing.T) {
	for _, test := range []struct {
		fn            any
		raw, variadic bool
	}{
		{func(a []byte) []byte { return a }, true, false},
		{func(context.Context, json.RawMessage) ([]byte, error) { return nil, nil }, true, false},
		{func(...[]byte) []byte { return nil }, false, true},
		{func([]byte) ([]byte, []byte) { return nil, nil }, false, false},
		{func([]byte) {}, false, false},
	} {
		f := function(t, "f", test.fn, schema.GoOptions{})
		if f.Raw != test.raw || f.Variadic != test.variadic {
			t.Errorf("%T: raw %v, variadic %v", test.fn, f.Raw, f.Variadic)
		}
	}
}

func TestArgumentCount(t *testing.T) {
	optional := function(t, "f", func(int, *int, int, *int, *string) {}, schema.GoOptions{})
	variadic := function(t, "f", func(string, ...int) {}, schema.GoOptions{})
	for _, test := range []struct {
		f     *schema.Function
		count int
		want  string
	}{
		{optional, 2, "f takes 3 to 5 arguments; 2 came, and argument 3 (arg3) is missing"},
		{optional, 3, ""}, {optional, 5, ""},
		{optional, 6, "f takes 3 to 5 arguments; 6 came"},
		{variadic, 0, "f takes 1 or more argument; 0 came, and argument 1 (arg1) is missing"},
		{variadic, 1, ""}, {variadic, 1000, ""},
	} {
		got := ""
		if err := test.f.CheckArgumentCount(test.count); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%d arguments: %q, want %q", test.count, got, test.want)
		}
	}
}

// The hash is checked here the way another language would: cut the member out
// of the text.
func TestDocumentHash(t *testing.T) {
	d := document(t, greet(t))
	text := string(d.JSON())
	without := strings.Replace(text, `"hash":"`+d.Hash()+`",`, "", 1)
	sum := sha256.Sum256([]byte(without))
	if without == text || hex.EncodeToString(sum[:]) != d.Hash() {
		t.Errorf("the hash %s is not that of %s", d.Hash(), without)
	}
	if d.WelcomeHash() != binary.LittleEndian.Uint64(sum[:8]) {
		t.Errorf("the welcome's hash is %x", d.WelcomeHash())
	}
	if again := document(t, greet(t)); !bytes.Equal(again.JSON(), d.JSON()) {
		t.Error("the same functions gave two documents")
	}
}

func TestParseDocument(t *testing.T) {
	d := document(t, greet(t), function(t, "echo", func(data []byte) []byte { return data }, schema.GoOptions{}))
	var spread bytes.Buffer
	if err := json.Indent(&spread, d.JSON(), "", "  "); err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{d.JSON(), spread.Bytes()} {
		got, err := schema.ParseDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.Hash() != d.Hash() || !bytes.Equal(got.JSON(), d.JSON()) || len(got.Functions) != 2 {
			t.Errorf("came back as %s", got.JSON())
		}
		if f := got.Function("greet"); f == nil || !bytes.Equal(f.JSON(), greet(t).JSON()) {
			t.Errorf("greet came back as %v", f)
		}
		if f := got.Function("echo"); f == nil || len(f.Types) != 0 {
			t.Errorf("echo reaches structs it does not use: %v", f)
		}
	}
}

// withHash completes a document that NewDocument would not make.
func withHash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return []byte(strings.Replace(text, `"nearcall"`, `"hash":"`+hex.EncodeToString(sum[:])+`","nearcall"`, 1))
}

func TestDocumentsOfLaterVersionsAreRead(t *testing.T) {
	d, err := schema.ParseDocument(withHash(`{"functions":[{"later":[1,2.50e3],"name":"f","params":[],"results":[]}],"nearcall":1,"types":{},"zone":null}`))
	if err != nil || len(d.Functions) != 1 {
		t.Fatalf("%v, %v", d, err)
	}
}

func TestParseDocumentRefuses(t *testing.T) {
	good := string(document(t, greet(t)).JSON())
	f := func(body string) string {
		return string(withHash(`{"functions":[{"name":"f",` + body + `}],"nearcall":1,"types":{"T":{"fields":[{"name":"t","type":{"struct":"T"}}]}}}`))
	}
	for _, test := range []struct{ text, want string }{
		{strings.Replace(good, "greet", "great", 1), "the document was changed"},
		{good + "x", "something follows"},
		{good + good, "something follows"},
		{good[:len(good)-1], "unexpected EOF"},
		{"", "EOF"},
		{"[]", "where a map is expected"},
		{"{\"nearcall\":\"\xff\"}", "not valid UTF-8"},
		{`{"nearcall":2}`, `"nearcall" is not 1`},
		{`{"nearcall":1}`, `"hash" is missing`},
		{string(withHash(`{"functions":{},"nearcall":1}`)), `"functions" is missing or not`},
		{f(`"params":[],"results":["int65"]`), `type "int65" is not known`},
		{f(`"params":[],"results":[{"list":"int8","map":1}]`), "is not a type"},
		{f(`"params":[],"results":[{"map":["float64","int8"]}]`), "map key type float64"},
		{f(`"params":[],"results":[{"struct":"U"}]`), `struct "U" is named but not described`},
		{f(`"params":[],"results":[{"struct":"T"}]`), `struct "T" contains itself`},
		{f(`"params":[{"name":"a","type":"any"},{"name":"a","type":"any"}],"results":[]`), `"a" occurs twice`},
		{f(`"params":[{"name":"a b","type":"any"}],"results":[]`), "space or control"},
		{f(`"params":[],"raw":true,"results":[]`), "is raw but"},
		{f(`"params":[],"results":[],"variadic":true`), "is variadic but"},
		{string(withHash(`{"functions":[{"doc":1,"name":"f","params":[],"results":[]}],"nearcall":1}`)), `member "doc"`},
		{f(`"results":[]`), `member "params"`},
		{f(`"params":[],"results":[` + strings.Repeat(`{"list":`, 40) + `"any"` + strings.Repeat("}", 40) + `]`), "nested deeper"},
		{string(withHash(`{"functions":[{"name":"f","params":[],"results":[]},{"name":"f","params":[],"results":[]}],"nearcall":1}`)), "two functions are called f"},
	} {
		if _, err := schema.ParseDocument([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.120s: %v, want %s", test.text, err, test.want)
		}
	}
}

func TestDocumentRefusesTwoMeanings(t *testing.T) {
	type Person struct{ A int }
	one := function(t, "one", func(Person) {}, schema.GoOptions{})
	two := func() *schema.Function {
		type Person struct{ A string }
		return function(t, "two", func(Person) {}, schema.GoOptions{})
	}()
	if _, err := schema.NewDocument([]*schema.Function{one, two}); err == nil || !strings.Contains(err.Error(), "struct Person that differs") {
		t.Errorf("two structs of one name: %v", err)
	}
	if _, err := schema.NewDocument([]*schema.Function{one, one}); err == nil {
		t.Error("two functions of one name were accepted")
	}
}

func TestParseFunctionRefusesHostileInput(t *testing.T) {
	deep := bytes.Repeat([]byte{0x81, 0xA4, 'l', 'i', 's', 't'}, 1_000_000)
	for _, src := range [][]byte{nil, {0xC0}, {0x90}, {0x80}, {0xDF, 255, 255, 255, 255}, deep, msgp.AppendString(nil, "name")} {
		if _, _, err := schema.ParseFunction(src); err == nil {
			t.Errorf("%.20x was accepted", src)
		}
	}
}

func FuzzParseFunction(f *testing.F) {
	f.Add(greet(f).AppendMessagePack(nil))
	f.Add(function(f, "many", func(map[int8][]*Greeted, person) (int, any, error) { return 0, nil, nil }, schema.GoOptions{}).AppendMessagePack(nil))
	f.Add([]byte{0xDF, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, src []byte) {
		made, _, err := schema.ParseFunction(src)
		if err != nil {
			return
		}
		again, rest, err := schema.ParseFunction(made.AppendMessagePack(nil))
		if err != nil || len(rest) > 0 || !bytes.Equal(again.JSON(), made.JSON()) {
			t.Errorf("%s came back as %v, %v", made.JSON(), again, err)
		}
	})
}

// FuzzParseDocument gives documents the hash that they should have, since
// without it hardly any would be read to the end.
func FuzzParseDocument(f *testing.F) {
	f.Add(document(f, greet(f)).JSON())
	f.Add(document(f, function(f, "many", func(map[int8][]*Greeted, person) (int, any, error) { return 0, nil, nil }, schema.GoOptions{})).JSON())
	f.Add([]byte(`{"functions":[{"name":"f","params":[],"results":[{"list":"any"}]}],"hash":"","nearcall":1,"types":{}}`))
	correct := regexp.MustCompile("content's is ([0-9a-f]{64})")
	stated := regexp.MustCompile(`"hash":"[^"]*","nearcall"`)
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := schema.ParseDocument(text)
		if err != nil {
			hash := correct.FindStringSubmatch(err.Error())
			if hash == nil {
				return
			}
			d, err = schema.ParseDocument(stated.ReplaceAll(text, []byte(`"hash":"`+hash[1]+`","nearcall"`)))
		}
		if err != nil {
			return
		}
		again, err := schema.ParseDocument(d.JSON())
		if err != nil || again.Hash() != d.Hash() || len(again.Functions) != len(d.Functions) {
			t.Errorf("%s: %v", d.JSON(), err)
		}
	})
}
