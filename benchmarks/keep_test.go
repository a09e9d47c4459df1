package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// ofRevision is a full result that documents may show, with nothing in it.
func ofRevision() *result.Result {
	return &result.Result{
		Schema: result.Schema, Date: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Machine: result.Machine{CPU: "A Processor", CPUs: 2}, Versions: result.Versions{Nearcall: "0123abc"},
	}
}

// project is a repository of which only the documents with figures matter.
func project(t *testing.T) tools {
	t.Helper()
	here := tools{root: t.TempDir()}
	for _, document := range report.Documents() {
		path := filepath.Join(here.root, document.Path)
		text, err := os.ReadFile(filepath.Join("..", document.Path))
		check(t, err)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, text, 0o600))
	}
	return here
}

// documents are the texts of those that show figures.
func documents(t *testing.T, root string) (all []string) {
	t.Helper()
	for _, document := range report.Documents() {
		text, err := os.ReadFile(filepath.Join(root, document.Path))
		check(t, err)
		all = append(all, string(text))
	}
	return all
}

// filesBelow are the files of a folder, by their paths in it.
func filesBelow(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			path, err = filepath.Rel(folder, path)
			found = append(found, path)
		}
		return err
	})
	check(t, err)
	return found
}

func TestWhatEachKindOfRunLeaves(t *testing.T) {
	const dated = "2026-03-01-a-processor-2cpu.json"
	for name, test := range map[string]struct {
		o       options
		want    []string
		written bool // the documents
	}{
		"full":         {options{}, []string{"benchmarks/results/" + dated, "benchmarks/results/latest.json", "benchmarks/results/report.html"}, true},
		"quick":        {options{quick: true}, []string{"build/benchmarks/results/latest.json", "build/benchmarks/results/report.html"}, false},
		"only":         {options{only: "x"}, nil, false},
		"only, kept":   {options{only: "x", out: "out"}, []string{"out/latest.json"}, false},
		"full, beside": {options{out: "out"}, []string{"out/" + dated, "out/latest.json", "out/report.html"}, false},
	} {
		o := test.o
		o.tools = project(t)
		if o.out != "" {
			o.out = filepath.Join(o.root, o.out)
		}
		before := documents(t, o.root)
		if err := o.keep(ofRevision()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := slices.DeleteFunc(filesBelow(t, o.root), func(path string) bool { return filepath.Ext(path) == ".md" })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: left are %v", name, got)
		}
		for i, after := range documents(t, o.root) {
			if (before[i] != after) != test.written {
				t.Errorf("%s: %s was written: %v", name, report.Documents()[i].Path, before[i] != after)
			}
		}
	}
}

func TestDocumentsShowFullRunsOfRevisionsOnly(t *testing.T) {
	for why, change := range map[string]func(*result.Result){
		"":           func(*result.Result) {},
		"quick":      func(r *result.Result) { r.Quick = true },
		"abc-dirty":  func(r *result.Result) { r.Versions.Nearcall = "abc-dirty" },
		"there is n": func(r *result.Result) { r.Versions.Nearcall = result.Unknown },
	} {
		r := ofRevision()
		change(r)
		err := options{}.unsuitable(r)
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", why, err)
		}
		if err := (options{out: "elsewhere"}).unsuitable(r); err != nil {
			t.Errorf("%q, elsewhere: %v", why, err)
		}
	}
}

func TestCheckWantsDatedFileOfLatestRun(t *testing.T) {
	o := options{tools: project(t), check: true}
	r := ofRevision()
	check(t, o.keep(r))
	dated := filepath.Join(o.results(), datedName(r))
	if err := o.reportAgain(); err == nil || strings.Contains(err.Error(), dated) {
		t.Errorf("with the file: %v", err) // it lacks all rows, which is told
	}
	check(t, os.WriteFile(dated, []byte("{}"), 0o600))
	if err := o.reportAgain(); err == nil || !strings.Contains(err.Error(), dated+" is not") {
		t.Errorf("with another file: %v", err)
	}
	check(t, os.Remove(dated))
	if err := o.reportAgain(); err == nil || !strings.Contains(err.Error(), dated+": no such file") {
		t.Errorf("without the file: %v", err)
	}
}

// A run that is refused, or that nothing was measured in yet, takes nothing away.
func TestPartialOfAnEarlierRunStaysUntilThereIsMore(t *testing.T) {
	o := options{tools: tools{root: t.TempDir()}}
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(o.root)) // it is of no repository
	before := o.partial()
	check(t, before.keep(ofRevision()))
	if err := o.measureAndKeep(t.Context()); !errors.Is(err, errUnsuitable) {
		t.Fatalf("a tree of no revision is measured: %v", err)
	}
	if err := o.partial().forget(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(before.path); err != nil {
		t.Errorf("what an earlier run has left is gone: %v", err)
	}
	if err := before.forget(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(before.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a run has kept stays when that is all: %v", err)
	}
}

// So that the script can ask before it builds.
func TestAllowedTellsWhatWouldBeRefused(t *testing.T) {
	root := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(root))
	for name, test := range map[string]struct {
		o       options
		refused bool
	}{
		"full": {options{}, true}, "with few rounds": {options{rounds: 1}, true}, "of nothing": {options{only: "no such name"}, true},
		"quick": {options{quick: true}, false}, "of a part": {options{only: "small"}, false}, "beside": {options{out: "out"}, false},
	} {
		o := test.o
		o.root, o.allowed = root, true
		if err := o.run(t.Context()); (err != nil) != test.refused {
			t.Errorf("a run %s: %v", name, err)
		}
	}
}
