package main

import (
	"slices"
	"strings"
	"testing"
)

const partsHead = "package p\n\n"

func TestPartsKnowOnlyWhatIsBelow(t *testing.T) {
	p := partition{folder: "p", levels: [][]string{{"share"}, {"output", "input"}, {"connection"}}}
	sound := partsHead + `
type share struct{}
type output struct{ share *share; beside *input }
type input struct{}
type connection struct{ output output; other execution }
type execution struct{ connection *connection }
func (o *output) flush(e *execution) { o.share = nil }
`
	for name, test := range map[string]struct {
		source string
		want   []string
	}{
		"sound":      {sound, nil},
		"field":      {strings.Replace(sound, "type share struct{}", "type share struct{ output *output }", 1), []string{"share knows output"}},
		"method":     {sound + "func (s share) end(c *connection) {}\n", []string{"share knows connection"}},
		"way up":     {sound + "func (o *output) end(e *execution) { e.connection = nil }\n", []string{"output knows connection"}},
		"no part":    {strings.Replace(sound, "type input struct{}", "type inputs struct{}", 1), []string{"has no type input"}},
		"no package": {partsHead, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := p.check(map[string]string{"p.go": test.source})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(found, test.want, strings.Contains) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}
