package report_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// Who has five minutes reads one table and looks at one picture.
func TestReadmeIsShort(t *testing.T) {
	text := shown(t, report.Readme, everything())
	rows := strings.Count(text, "\n|") - 2 // head and rule
	pictures := strings.Count(text, "![")
	if rows < 5 || rows > 10 || pictures != 1 {
		t.Errorf("the README has %d rows and %d pictures:\n%s", rows, pictures, text)
	}
	wantIn(t, text, "(benchmarks/results/"+report.OverTimeName+")")
}

// What the README says of other tables leads to them.
func TestReadmeLeadsToWhatIsMeasured(t *testing.T) {
	r := races()
	r.Comparisons = example().Comparisons
	text, measured := shown(t, report.Readme, r), shown(t, report.Measured, r)
	wantIn(t, text, "In 3 of 5 comparisons another way, or a floor, was faster", "Of 5 [goals](docs/measured.md#goals) 3 are met.")
	links := regexp.MustCompile(`\]\(docs/measured\.md#([^)]+)\)`).FindAllStringSubmatch(text, -1)
	if len(links) != 2 {
		t.Errorf("the README has the links %q:\n%s", links, text)
	}
	for _, link := range links {
		wantIn(t, strings.ToLower(measured), "\n## "+strings.ReplaceAll(link[1], "-", " ")+"\n")
	}
}

func TestReadmeSaysNothingOfWhatWasNotCompared(t *testing.T) {
	if text := shown(t, report.Readme, &result.Result{Schema: result.Schema}); strings.Contains(text, "](docs/") || strings.Contains(text, "![") {
		t.Errorf("the README of a run without figures says\n%s", text)
	}
}
