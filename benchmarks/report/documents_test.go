package report_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

const marked = "# Title\n\n" +
	"<!-- figures of benchmarks/results/latest.json: begin -->\nold\n" +
	"<!-- figures of benchmarks/results/latest.json: end -->\n\nafter\n"

// project is one of which only the documents are there.
func project(t *testing.T, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, d := range report.Documents() {
		path := filepath.Join(root, d.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// shown is what a document says of a result.
func shown(t *testing.T, d report.Document, r *result.Result) string {
	t.Helper()
	root := project(t, marked)
	if err := report.UpdateDocuments(root, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, d.Path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantIn(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func wantNotIn(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, not := range unwanted {
		if strings.Contains(text, not) {
			t.Errorf("%q is in:\n%s", not, text)
		}
	}
}

// namesAll reports whether an error is one of every document.
func namesAll(err error) bool {
	for _, d := range report.Documents() {
		if err == nil || !strings.Contains(err.Error(), d.Path) {
			return false
		}
	}
	return true
}

// A document that is forgotten would keep the figures of an earlier run.
func TestDocumentsAreStaleUntilUpdated(t *testing.T) {
	root := project(t, marked)
	if err := report.CheckDocuments(root, example()); !errors.Is(err, report.ErrStale) || !namesAll(err) {
		t.Fatalf("before the update: %v", err)
	}
	if err := errors.Join(report.UpdateDocuments(root, example()), report.CheckDocuments(root, example())); err != nil {
		t.Errorf("after the update: %v", err)
	}
	other := idleResult(1 << 20)
	other.Date = other.Date.AddDate(0, 0, 1)
	other.Rows = append(other.Rows, example().Rows...)
	if err := report.CheckDocuments(root, other); !errors.Is(err, report.ErrStale) || !namesAll(err) {
		t.Errorf("with other figures: %v", err)
	}
}

func TestDocumentsKeepWhatStandsAround(t *testing.T) {
	for _, d := range report.Documents() {
		got := shown(t, d, example())
		if !strings.HasPrefix(got, "# Title\n\n<!-- figures") || !strings.HasSuffix(got, "end -->\n\nafter\n") || strings.Contains(got, "old\n") {
			t.Errorf("%s:\n%s", d.Path, got)
		}
	}
}

func TestDocumentsWithoutAPlaceForFiguresAreErrors(t *testing.T) {
	for why, root := range map[string]string{"without marks": project(t, "# Title\n"), "not there": t.TempDir()} {
		if updated, checked := report.UpdateDocuments(root, example()), report.CheckDocuments(root, example()); !namesAll(updated) || !namesAll(checked) {
			t.Errorf("documents that are %s are accepted: %v; %v", why, updated, checked)
		}
	}
}

func TestMeasuredSaysGoalsAndCPU(t *testing.T) {
	text := shown(t, report.Measured, example())
	wantIn(t, text,
		"| *floor*: a bare echo server in Go, called from C | 1,234,567 |  | 9.88 us | 20.0 us |  | 4.25 + 5.50 |",
		"| Go, socket | failed: no report |  |  |  |  |  |", "| C, socket | not measured |",
		"| a / b, p50_ns | 64 | <= 1.15 | 1.08 | met |",
		"| a, p99_ns / p50_ns | 64 | <= 5.00 | 5.25 | **not met** |",
		"| a - b, p50_ns | 64 | <= 1.50 us | 1.23 us | met |",
		"| a, p50_ns | 64 | < 2.50 us | 2.50 us | **not met** |",
		"| c, per_s | 64 | >= 3,000,000 calls/s | 3,100,000 calls/s | met |",
		"* half-cpu: not root.",
		"* nearcall-go-socket: no report.",
		"\n4 of 6 are met.")
	wantNotIn(t, text, ".png") // there are no rows for a picture
}

func TestMeasuredShowsPicturesAndTables(t *testing.T) {
	text := shown(t, report.Measured, everything())
	for _, name := range []string{"over-time.png", "distributions.png", "callers.png", "sizes.png", report.PageName} {
		wantIn(t, text, "(../benchmarks/results/"+name+")")
	}
	for _, want := range []string{`\| Go library in the Perl process \| [0-9,]+/s \| 8,025,350/s \|`, `One caller sends 64 B and gets them back`, `\| grpc \| [0-9.]+ us \|`,
		`\n## What others have published\n\n`, `\n### Handing connections over\n\n`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func TestCostsAreShownBySizeAndAsRatios(t *testing.T) {
	r := everything()
	p50 := map[string]int64{
		"nearcall-c-embed-shape-integers:64": 400, "nearcall-c-embed-shape-struct:64": 1_000,
		"go-itself-app-search:64": 3_000, "nearcall-python-shm-app-search:64": 21_000,
		"nearcall-c-shm:64": 730, "nearcall-c-shm:800000": 200_000, "nearcall-c-shm-floats:800000": 250_000,
	}
	for i, row := range r.Rows {
		if ns, is := p50[fmt.Sprintf("%s:%d", row.Name, row.Size)]; is {
			r.Rows[i].P50NS, r.Rows[i].MeanNS = ns, ns
		}
	}
	text := shown(t, report.CostsGuide, r)
	wantIn(t, text, "(../../benchmarks/results/distributions.png)", "(../../benchmarks/results/sizes.png)",
		"| a struct of three there and back | 1.00 us | ", " | 2.50 |\n", "| 64 | 0.73 us |", "| C | 200.0 us | 250.0 us | 1.25 |")
	if line := regexp.MustCompile(`\n\| search: .* \|\n`).FindString(text); !strings.Contains(line, "| 3.00 us |") || !strings.Contains(line, "| 21.0 us |") {
		t.Errorf("what an application costs is not in %q", line)
	}
	wantNotIn(t, text, "not measured", "\n\n\n")
}

// A heading without anything under it says that something was forgotten.
func TestDocumentsHaveNoEmptyParts(t *testing.T) {
	var texts []string
	for _, d := range []report.Document{report.Measured, report.CostsGuide} {
		texts = append(texts, shown(t, d, everything()), shown(t, d, example()))
	}
	for _, text := range texts {
		if empty := regexp.MustCompile(`(?m)^##+ .*\n+(?:#|<!)`).FindString(text); empty != "" {
			t.Errorf("there is nothing under %q in:\n%s", empty, text)
		}
		wantNotIn(t, text, "\n\n\n")
	}
}

// Who has five minutes reads one table and looks at one picture.
func TestReadmeIsShort(t *testing.T) {
	text := shown(t, report.Readme, everything())
	rows := strings.Count(text, "\n|") - 2 // head and rule
	pictures := strings.Count(text, "![")
	if rows < 5 || rows > 10 || pictures != 1 {
		t.Errorf("the README has %d rows and %d pictures:\n%s", rows, pictures, text)
	}
	wantIn(t, text, "(benchmarks/results/over-time.png)")
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
	wantNotIn(t, shown(t, report.Readme, &result.Result{Schema: result.Schema}), "](docs/", "![")
}
