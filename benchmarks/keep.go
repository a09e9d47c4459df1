package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

const latestName = "latest.json"

// inDocuments reports whether the figures in the project's documents are those of this run.
func (o options) inDocuments() bool { return !o.quick && o.only == "" && o.out == "" }

// results is where a run leaves its result; "" for nowhere.
func (o options) results() string {
	switch {
	case o.out != "":
		return o.out
	case o.only != "":
		return ""
	case o.quick:
		return filepath.Join(o.root, "build/benchmarks/results")
	}
	return filepath.Join(o.root, "benchmarks/results")
}

// datedName is the file beside latest.json that keeps a full run for ever.
func datedName(r *result.Result) string {
	return r.Date.Format(time.DateOnly) + "-" + r.Machine.Slug() + ".json"
}

// keep writes the result and what is made of it. That of a full run is also kept
// under its date and machine, and the figures in documents are its own. Of a part there
// is the result alone.
func (o options) keep(r *result.Result) error {
	folder := o.results()
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	names := []string{latestName}
	if !o.quick && o.only == "" {
		names = append(names, datedName(r))
	}
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := r.Write(path); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	if o.only != "" {
		return nil // of a part there is no report
	}
	if err := report.Write(folder, r); err != nil {
		return err
	}
	fmt.Println("wrote", filepath.Join(folder, report.PageName))
	if !o.inDocuments() {
		return nil
	}
	if err := os.Remove(filepath.Join(folder, awaitedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return report.UpdateDocuments(o.root, r)
}

// reportAgain writes or checks what is made of the last full run.
func (o options) reportAgain() error {
	latest := filepath.Join(o.results(), latestName)
	r, err := result.Read(latest)
	if err != nil {
		return err
	}
	if err := o.unsuitable(r); err != nil {
		return fmt.Errorf("%s: %w", latest, err)
	}
	inFolder, inDocuments := report.Write, report.UpdateDocuments
	if o.check {
		inFolder, inDocuments = report.Check, report.CheckDocuments
	}
	err = inFolder(o.results(), r)
	if o.inDocuments() {
		err = errors.Join(err, inDocuments(o.root, r))
	}
	if o.inDocuments() && o.check {
		awaited, unread := o.awaitedRows()
		err = errors.Join(err, unread, sameFiles(latest, filepath.Join(o.results(), datedName(r))), o.complete(r, awaited))
	}
	return err
}

// errUnsuitable means that a result is not what documents may show.
var errUnsuitable = errors.New("README.md and docs show full runs of a revision only")

// unsuitable is why documents may not show a result, if they are to.
func (o options) unsuitable(r *result.Result) error {
	if !o.inDocuments() {
		return nil
	}
	switch revision := r.Versions.Nearcall; {
	case r.Quick:
		return fmt.Errorf("%w, and this one is quick; run: make bench", errUnsuitable)
	case revision == "" || revision == result.Unknown:
		return fmt.Errorf("%w, and there is none: measure in a clone of the repository, or with -out FOLDER", errUnsuitable)
	case strings.HasSuffix(revision, result.Dirty):
		return fmt.Errorf("%w, and this is %s: commit what was changed, or measure with -out FOLDER", errUnsuitable, revision)
	}
	return nil
}

// sameFiles fails when the second file is not there or does not hold what the first does.
func sameFiles(one, other string) error {
	wanted, err := os.ReadFile(one)
	if err != nil {
		return err
	}
	held, err := os.ReadFile(other)
	if err != nil {
		return fmt.Errorf("%w; a full run writes it beside %s", err, latestName)
	}
	if !bytes.Equal(held, wanted) {
		return fmt.Errorf("%s is not %s, as it has to be for the last full run", other, one)
	}
	return nil
}

// A partial is the file in which a run under way keeps what it has. That of an earlier
// run stays until this one has something to keep.
type partial struct {
	path string
	kept bool // by this run
}

// partial is the run's file: runs of a kind have one. What a short run leaves does not
// replace what is left of a long one.
func (o options) partial() *partial {
	kind := ""
	switch {
	case o.only != "":
		kind = "-only"
	case o.quick:
		kind = "-quick"
	}
	return &partial{path: filepath.Join(o.root, "build/benchmarks/partial"+kind+".json")}
}

func (p *partial) keep(r *result.Result) error {
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return err
	}
	if err := r.Write(p.path); err != nil {
		return err
	}
	p.kept = true
	return nil
}

// forget removes what this run has kept.
func (p *partial) forget() error {
	if !p.kept {
		return nil
	}
	p.kept = false
	if err := os.Remove(p.path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// keepPartial keeps what was measured so far, if the run should end before all is.
func (m *measuring) keepPartial() {
	if err := m.partly.keep(m.result); err != nil {
		m.watch.say("what was measured so far cannot be kept: %v", err)
	}
}

// failures is an error where something of a result has failed. All else is there.
func failures(r *result.Result) error {
	var failed []string
	for _, row := range r.Rows {
		if row.Failed != "" {
			failed = append(failed, fmt.Sprintf("%s of %s: %s", row.Name, row.Group, row.Failed))
		}
	}
	for _, left := range r.LeftOut {
		if left.Failed {
			failed = append(failed, left.Group+": "+left.Why)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d failed:\n  %s", len(failed), strings.Join(failed, "\n  "))
}
