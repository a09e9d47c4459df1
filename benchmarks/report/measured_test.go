package report_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
)

func TestMeasuredSaysGoalsAndCPU(t *testing.T) {
	text := shown(t, report.Measured, example())
	wantIn(t, text,
		"| *floor*: a bare echo server in Go, called from C | 1,234,567 |  | 9.88 us | 20.0 us |  | 4.25 + 5.50 |",
		"| Go, socket | failed: no report |  |  |  |  |  |", "| C, socket | not measured |",
		"| a - b, p50_ns | 64 | <= 1.50 us | 1.23 us | met |",
		"| a, p50_ns | 64 | < 2.50 us | 2.50 us | **not met** |",
		"* half-cpu: not root.",
		"* nearcall-go-socket: no report.",
		"\n4 of 6 are met.")
	if strings.Contains(text, ".png") {
		t.Error("a picture is shown for which there are no rows")
	}
}

func TestMeasuredShowsPicturesAndTables(t *testing.T) {
	text := shown(t, report.Measured, everything())
	for _, name := range []string{report.OverTimeName, report.DistributionsName, report.CallersName, report.SizesName, report.PageName} {
		wantIn(t, text, "(../benchmarks/results/"+name+")")
	}
	for _, want := range []string{`\| Go library in the Perl process \| [0-9,]+/s \| 8,025,350/s \|`, `One caller sends 64 B and gets them back`, `\| grpc \| [0-9.]+ us \|`,
		`\n## What others have published\n\n`, `\n### Handing connections over\n\n`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// A heading without anything under it says that something was forgotten.
func TestMeasuredHasNoEmptyParts(t *testing.T) {
	for _, text := range []string{shown(t, report.Measured, everything()), shown(t, report.Measured, example())} {
		if empty := regexp.MustCompile(`(?m)^##+ .*\n+(?:#|<!)`).FindString(text); empty != "" {
			t.Errorf("there is nothing under %q in:\n%s", empty, text)
		}
		if strings.Contains(text, "\n\n\n") {
			t.Errorf("there are empty lines after each other in:\n%s", text)
		}
	}
}

func TestMeasuredSaysWhereNearcallIsNotTheFastest(t *testing.T) {
	wantIn(t, shown(t, report.Measured, races()),
		"\n5 rows are of other ways, floors among them,", "lower than that of Nearcall's best in 3:\n",
		"* peer-netrpc-64-1: Nearcall takes 2.00 times as long. No reason is known.")
}
