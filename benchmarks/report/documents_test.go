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

const marked = "# Title\n\n" +
	"<!-- figures of benchmarks/results/latest.json: begin -->\nold\n" +
	"<!-- figures of benchmarks/results/latest.json: end -->\n\nafter\n"

// write makes a project of which only one document is there.
func write(t *testing.T, d report.Document, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	path := filepath.Join(root, d.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// shown is what a document says of a result.
func shown(t *testing.T, d report.Document, r *result.Result) string {
	t.Helper()
	root := write(t, d, marked)
	if err := d.Update(root, r); err != nil {
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

// changed is a result of which every document shows other figures than of example.
func changed() *result.Result {
	r := idleResult(1 << 20)
	r.Rows = append(r.Rows, example().Rows...)
	return r
}

func TestDocumentsAreStaleUntilUpdated(t *testing.T) {
	for _, d := range report.Documents() {
		root := write(t, d, marked)
		if err := d.Check(root, example()); !errors.Is(err, report.ErrStale) {
			t.Fatalf("%s, before the update: %v", d.Path, err)
		}
		if err := d.Update(root, example()); err != nil {
			t.Fatal(err)
		}
		if err := d.Check(root, example()); err != nil {
			t.Errorf("%s, after the update: %v", d.Path, err)
		}
		if err := d.Check(root, changed()); !errors.Is(err, report.ErrStale) {
			t.Errorf("%s, with other figures: %v", d.Path, err)
		}
	}
}

// A document that is forgotten would keep the figures of an earlier run.
func TestAllDocumentsAreUpdatedAndChecked(t *testing.T) {
	root := t.TempDir()
	if err := report.UpdateDocuments(root, example()); !namesAllDocuments(err) {
		t.Errorf("documents that are not there are updated: %v", err)
	}
	if err := report.CheckDocuments(root, example()); !namesAllDocuments(err) {
		t.Errorf("documents that are not there are checked: %v", err)
	}
}

func namesAllDocuments(err error) bool {
	for _, d := range report.Documents() {
		if err == nil || !strings.Contains(err.Error(), d.Path) {
			return false
		}
	}
	return true
}

func TestDocumentsKeepWhatStandsAround(t *testing.T) {
	for _, d := range report.Documents() {
		got := shown(t, d, example())
		if !strings.HasPrefix(got, "# Title\n\n<!-- figures") || !strings.HasSuffix(got, "end -->\n\nafter\n") || strings.Contains(got, "old\n") {
			t.Errorf("%s:\n%s", d.Path, got)
		}
	}
}

func TestDocumentWithoutMarksIsAnError(t *testing.T) {
	for _, d := range report.Documents() {
		root := write(t, d, "# Title\n")
		if d.Update(root, example()) == nil || d.Check(root, example()) == nil {
			t.Errorf("%s was accepted without marks", d.Path)
		}
	}
}
