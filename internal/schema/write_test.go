package schema_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/schema"
)

type branch struct {
	Leaves   map[string][]*branch `nearcall:"leaves"`
	Sort     map[int32]time.Duration
	Any      any `nearcall:"any \"thing\""`
	Absolute *time.Time
}

func described(t *testing.T) []*schema.Function {
	return []*schema.Function{
		function(t, "nothing", func() {}, schema.GoOptions{}),
		function(t, "raw", func(data []byte) []byte { return data }, schema.GoOptions{Doc: "Bytes\tand \u2028 lines.", Idempotent: true}),
		function(t, "variadic", func(of branch, more ...[]float64) (branch, error) { return of, nil },
			schema.GoOptions{ParamNames: []string{"of", "more"}}),
		function(t, "many", func(map[uint8]*string, *[]*int64, Greeted, struct{ A, B bool }) (int8, float32, Greeted) {
			return 0, 0, Greeted{}
		},
			schema.GoOptions{Doc: "Ä \"quoted\" \\ text", Idempotent: true}),
	}
}

// Both forms of a description say the same, and JSON has what RFC 8785 demands, of which
// sorted keys are what goes wrong.
func TestBothFormsSayTheSame(t *testing.T) {
	for _, f := range described(t) {
		var fromJSON any
		if err := json.Unmarshal(f.JSON(), &fromJSON); err != nil {
			t.Fatalf("%s: %v in %s", f.Name, err, f.JSON())
		}
		fromBinary, rest, err := msgpack.ReadAny(f.AppendMessagePack(nil), 0)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, %d bytes are left", f.Name, err, len(rest))
		}
		fromJSON, fromBinary = plain(fromJSON), plain(fromBinary)
		var want bytes.Buffer
		encoder := json.NewEncoder(&want) // it sorts keys
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(fromJSON); err != nil {
			t.Fatal(err)
		}
		asCanonical := bytes.ReplaceAll(bytes.TrimSpace(want.Bytes()), []byte(`\u2028`), []byte("\u2028"))
		if !bytes.Equal(f.JSON(), asCanonical) {
			t.Errorf("got  %s\nwant %s", f.JSON(), asCanonical)
		}
		if binary, _ := json.Marshal(fromBinary); !bytes.Equal(binary, must(json.Marshal(fromJSON))) {
			t.Errorf("MessagePack says %s, JSON %s", binary, f.JSON())
		}
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// plain is a value whose maps have texts as keys, which package json can write.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		made := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			made[key] = plain(v[key])
		}
		return made
	case []any:
		made := make([]any, len(v))
		for i := range v {
			made[i] = plain(v[i])
		}
		return made
	}
	return value
}

// A description that was read is written as it was.
func TestDescriptionsSurviveReading(t *testing.T) {
	functions := described(t)
	for _, f := range functions {
		read, _, err := schema.ParseFunction(f.AppendMessagePack(nil))
		if err != nil || !bytes.Equal(read.JSON(), f.JSON()) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", f.Name, err, read.JSON(), f.JSON())
		}
	}
	d := document(t, functions...)
	read, err := schema.ParseDocument(d.JSON()) // which verifies the hash
	if err != nil || !bytes.Equal(read.JSON(), d.JSON()) {
		t.Errorf("%v\ngot  %s\nwant %s", err, read.JSON(), d.JSON())
	}
}

// A server describes all of its functions before it serves, so that must be cheap.
func TestDescribingAllocatesLittle(t *testing.T) {
	f := described(t)[2]
	room := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { f.AppendMessagePack(room) }); n > 4 {
		t.Errorf("%v allocations", n) // the names of two structs are sorted
	}
}
