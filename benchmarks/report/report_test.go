package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

func example() *result.Result {
	return &result.Result{
		Schema: result.Schema,
		Rows:   []result.Row{{Name: "floor-c-socket", Size: 64, Callers: 1, P50NS: 9_876, P99NS: 20_000, PerS: 1_234_567}},
		Ratios: []result.Ratio{
			{Above: "a", Below: "b", Figure: "p50_ns", Value: 1.08, Goal: result.AtMost(1.15).Judged(1.08)},
			{Above: "c", Below: "d", Figure: "per_s", Value: 1.2, Goal: result.AtLeast(1.5).Judged(1.2)},
		},
		Measures: []result.Measure{{Name: "resident", Value: 100 << 20, Unit: "bytes", Goal: result.AtMost(200 << 20).Judged(100 << 20)}},
	}
}

func TestPrintSaysGoalsAndWhetherTheyWereMet(t *testing.T) {
	var out strings.Builder
	if err := report.Print(&out, example()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"9.9 us", "1,234,567", "goal <= 1.15  met", "goal >= 1.5  NOT met", "100.0 MiB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

const readme = "# Title\n\n" +
	"<!-- figures of benchmarks/results/latest.json: begin -->\nold\n" +
	"<!-- figures of benchmarks/results/latest.json: end -->\n\nafter\n"

func writeReadme(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadmeIsStaleUntilUpdated(t *testing.T) {
	path := writeReadme(t, readme)
	if err := report.CheckReadme(path, example()); !errors.Is(err, report.ErrStale) {
		t.Fatalf("before the update: %v", err)
	}
	if err := report.UpdateReadme(path, example()); err != nil {
		t.Fatal(err)
	}
	if err := report.CheckReadme(path, example()); err != nil {
		t.Errorf("after the update: %v", err)
	}
	other := example()
	other.Rows[0].P50NS++
	other.Rows[0].PerS++
	if err := report.CheckReadme(path, other); !errors.Is(err, report.ErrStale) {
		t.Errorf("with other figures: %v", err)
	}
}

func TestReadmeKeepsWhatStandsAround(t *testing.T) {
	path := writeReadme(t, readme)
	if err := report.UpdateReadme(path, example()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "# Title\n\n<!-- figures") || !strings.HasSuffix(got, "end -->\n\nafter\n") || strings.Contains(got, "old") {
		t.Errorf("got:\n%s", got)
	}
}

func TestReadmeWithoutMarksIsAnError(t *testing.T) {
	path := writeReadme(t, "# Title\n")
	if report.UpdateReadme(path, example()) == nil || report.CheckReadme(path, example()) == nil {
		t.Error("a README without marks was accepted")
	}
}
