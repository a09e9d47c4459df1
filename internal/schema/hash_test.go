package schema_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/schema"
	"github.com/tinylib/msgp/msgp"
)

// The hash is computed here the way another language would: the text without
// the members that do not count.
func TestFunctionHash(t *testing.T) {
	f := greet(t)
	start, end := strings.Index(greetJSON, `"doc"`), strings.Index(greetJSON, `"idempotent"`)
	sum := sha256.Sum256([]byte(greetJSON[:start] + greetJSON[end:]))
	if f.Hash != hex.EncodeToString(sum[:]) || f.Check() != binary.LittleEndian.Uint32(sum[:]) {
		t.Errorf("the hash %s, check %x, is not that of %s", f.Hash, f.Check(), greetJSON[:start]+greetJSON[end:])
	}
}

func TestFunctionHashTellsDescriptionsApart(t *testing.T) {
	type options = schema.GoOptions
	transfer := func(string, string, int64) {}
	of := func(fn any, with options) string { return function(t, "transfer", fn, with).Hash }
	first := of(transfer, options{ParamNames: []string{"from", "to", "amount"}, Doc: "Moves money."})
	if again := of(transfer, options{ParamNames: []string{"from", "to", "amount"}, Doc: "Moves money at once."}); again != first {
		t.Error("the documentation counts")
	}
	type Money struct{ Cents int64 }
	seen := map[string]string{first: "the first"}
	for name, hash := range map[string]string{
		"another order":  of(transfer, options{ParamNames: []string{"to", "from", "amount"}}),
		"another result": of(func(string, string, int64) bool { return false }, options{ParamNames: []string{"from", "to", "amount"}}),
		"a struct":       of(func(string, string, Money) {}, options{ParamNames: []string{"from", "to", "amount"}}),
		"another struct": of(func(string, string, struct{ Cents int32 }) {}, options{ParamNames: []string{"from", "to", "amount"}}),
		"idempotent":     of(transfer, options{ParamNames: []string{"from", "to", "amount"}, Idempotent: true}),
	} {
		if other, taken := seen[hash]; taken {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[hash] = name
	}
}

func TestHashOfAReadDescription(t *testing.T) {
	f := greet(t)
	stated := strings.Repeat("00000000", 8)
	for _, test := range []struct{ text, want string }{
		{strings.Replace(greetJSON, `"hash":"`+f.Hash+`",`, "", 1), f.Hash},
		{strings.Replace(greetJSON, f.Hash, stated, 1), stated},
		{strings.Replace(greetJSON, f.Hash, f.Hash[1:], 1), ""},
		{strings.Replace(greetJSON, f.Hash, strings.ToUpper(f.Hash), 1), ""},
		{strings.Replace(greetJSON, `"`+f.Hash+`"`, "7", 1), ""},
		{greetJSON[1:], ""},
		{greetJSON + "{}", ""},
	} {
		got, err := schema.ParseFunctionJSON([]byte(test.text))
		if test.want == "" {
			if err == nil {
				t.Errorf("%s was read", test.text)
			}
			continue
		}
		if err != nil || got.Hash != test.want {
			t.Errorf("%s: %v, %v", test.text, got, err)
		}
	}
	zero, err := schema.ParseFunctionJSON([]byte(strings.Replace(greetJSON, f.Hash, stated, 1)))
	if err != nil || zero.Check() != 1 {
		t.Errorf("the check of a hash that begins with zeros: %v, %v", zero, err)
	}
}

func TestIncompatible(t *testing.T) {
	before := function(t, "transfer", func(string, string) {}, schema.GoOptions{ParamNames: []string{"from", "to"}})
	after := function(t, "transfer", func(string, string) int { return 0 }, schema.GoOptions{ParamNames: []string{"to", "from"}})
	for _, test := range []struct {
		after *schema.Function
		want  []string
	}{
		{before, nil},
		{function(t, "renamed", func(string, string, *int) {}, schema.GoOptions{ParamNames: []string{"from", "target", "cents"}}), nil},
		{after, []string{"parameter 1 (from) of transfer is now parameter 2", "parameter 2 (to) of transfer is now parameter 1",
			"the results of transfer were [] and are [int64]"}},
		{nil, []string{"function transfer was removed or renamed"}},
	} {
		got := schema.Incompatible(before, test.after)
		if strings.Join(got, "\n") != strings.Join(test.want, "\n") || got == nil {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
}

// FuzzFunctionJSON: what a caller sends to be compared is read or refused, and
// what was read is the same when it is read again.
func FuzzFunctionJSON(f *testing.F) {
	f.Add([]byte(greetJSON))
	f.Add([]byte(`{"name":"f","params":[],"results":[{"list":"any"}],"hash":"` + strings.Repeat("0a", 32) + `"}`))
	f.Add(msgp.AppendNil(nil))
	served := greet(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		made, err := schema.ParseFunctionJSON(text)
		if err != nil {
			return
		}
		again, err := schema.ParseFunctionJSON(made.JSON())
		if err != nil || again.Hash != made.Hash || len(schema.Incompatible(made, again)) > 0 {
			t.Errorf("%s came back as %v, %v", made.JSON(), again, err)
		}
		schema.Incompatible(made, served)
	})
}
