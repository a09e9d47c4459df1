package main

import (
	"slices"
	"strings"
	"testing"
)

func TestAliasesOfInternalTypesAreFound(t *testing.T) {
	const head = "package p\n\nimport (\n\t\"example.org/m/internal/schema\"\n\tother \"example.org/m/internal/wire\"\n\t\"example.org/m/intercept\"\n)\n\n"
	for name, test := range map[string]struct {
		source string
		want   []string
	}{
		"an alias":                {"type Function = schema.Function\n", []string{"type Function is another name"}},
		"of a renamed import":     {"type Frame = *other.Frame\n", []string{"internal package other"}},
		"of a generic type":       {"type Codec[T any] = schema.Codec[T]\n", []string{"type Codec"}},
		"in a group":              {"type (\n\ta int\n\tB = schema.B\n)\n", []string{"type B"}},
		"a type of its own":       {"type Function schema.Function\n", nil},
		"a struct around it":      {"type Typed struct{ adapter schema.Function }\n", nil},
		"unexported":              {"type function = schema.Function\n", nil},
		"of a public package":     {"type Peer = intercept.Peer\n", nil},
		"of the package's own":    {"type A = B\n\ntype B int\n", nil},
		"a variable of that name": {"var ErrTooLarge = schema.ErrTooLarge\n", nil},
	} {
		found, err := aliasesIn("p.go", []byte(head+test.source))
		if err != nil || !slices.EqualFunc(found, test.want, strings.Contains) {
			t.Errorf("%s: found %q, %v; want %q", name, found, err, test.want)
		}
	}
	for file, want := range map[string]bool{"client/schema.go": true, "resident/inspect/inspect.go": true, "client/schema_test.go": false,
		"handoff/internal/frame/frame.go": false, "internal/schema/type.go": false, "cmd/nearcall/main.go": false, "client/testdata/x.go": false} {
		if isPublicSource(file) != want {
			t.Errorf("%s: public is %v", file, !want)
		}
	}
}
