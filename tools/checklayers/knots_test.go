package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestCirclesOfTypesAreNamed(t *testing.T) {
	const source = partsHead + `
type share struct{ budget *budget }
type budget struct{}
func (b *budget) take(s share) {}
type output struct{ share share }
func (o *output) flush() { o.share.budget.take(o.share) }
type reader struct{ output output }
type connection struct{ reader *reader }
func count(c *connection) int { return 0 }
`
	named := [][]string{{"budget", "share"}}
	for name, test := range map[string]struct {
		source string
		knots  [][]string
		want   []string
	}{
		"sound":            {source, named, nil},
		"not named":        {source, nil, []string{"budget, share know each other"}},
		"named and gone":   {strings.NewReplacer("take(s share)", "take()", "take(o.share)", "take()").Replace(source), named, []string{"budget, share no longer"}},
		"by a field":       {strings.Replace(source, "output struct{ share share }", "output struct{ share share; up *connection }", 1), named, []string{"connection, output, reader know"}},
		"by a method":      {source + "func (o *output) end(c *connection) {}\n", named, []string{"connection, output, reader know"}},
		"by a method only": {source + "func (c *connection) close() {}\nvar all struct{ c *connection }\nfunc (o *output) end() { all.c.close() }\n", named, []string{"connection, output, reader know"}},
		"a larger one":     {source + "func (b *budget) of(o *output) {}\n", named, []string{"budget, output, share know", "budget, share no longer"}},
		"a field's name":   {strings.Replace(source, "type budget struct{}", "type budget struct{ output, connection int }", 1), named, nil},
		"a function":       {source + "func (b *budget) of() int { return count(nil) }\n", named, nil},
	} {
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, "p.go", test.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p := partition{folder: "p", knots: test.knots}
		arrows, err := arrowsIn(positions, []*ast.File{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		found := p.checkKnots(arrows)
		if !slices.EqualFunc(found, test.want, strings.Contains) {
			t.Errorf("%s: found %q, want %q", name, found, test.want)
		}
	}
}
