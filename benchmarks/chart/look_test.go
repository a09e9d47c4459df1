package chart

import (
	"fmt"
	"testing"
)

// The page has 22 lines in a chart of peers.
func TestLinesAreToldApart(t *testing.T) {
	const lines = 30
	looks := map[string]int{}
	for n := range lines {
		line, glyph := look(n)
		name := fmt.Sprint(line.Color, line.Dashes, glyph.Shape)
		if other, found := looks[name]; found {
			t.Errorf("lines %d and %d look the same", other, n)
		}
		looks[name] = n
	}
}
