package main

import (
	"slices"
	"strings"
	"testing"
)

func TestLinksThatLeadSomewhere(t *testing.T) {
	problems, err := Check("testdata/whole")
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 0 {
		t.Errorf("problems in pages that are whole:\n%s", strings.Join(problems, "\n"))
	}
}

func TestLinksThatLeadNowhere(t *testing.T) {
	want := []string{
		"README.md:3: gone.md: there is no such file",
		"README.md:3: other.md#gone: the page has no such heading",
		"README.md:4: #gone: the page has no such heading",
		"README.md:6: ../broken.png: there is no such file",
		"merged.md:3: a merge that is not finished",
		"merged.md:9: a merge that is not finished",
		"other.md:3: README.md#in-code: the page has no such heading",
		"other.md:5: README.md#twice-2: the page has no such heading",
	}
	problems, err := Check("testdata/broken")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(problems, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
}

func TestAnchors(t *testing.T) {
	for heading, want := range map[string]string{
		"Where to read on":               "where-to-read-on",
		"`nearcall front`, and its like": "nearcall-front-and-its-like",
		"See [a page](a.md#b)":           "see-a-page",
		"snake_case - and a dash":        "snake_case---and-a-dash",
		"Größe, 2nd":                     "größe-2nd",
	} {
		if got := anchor(heading); got != want {
			t.Errorf("%q is referred to as %q, not %q", heading, got, want)
		}
	}
}
