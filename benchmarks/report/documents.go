package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// The marks between which the figures of a document stand. Nothing else of it is touched.
const (
	beginMark = "<!-- figures of benchmarks/results/latest.json: begin -->\n"
	endMark   = "<!-- figures of benchmarks/results/latest.json: end -->\n"
)

// Paths in the project that documents refer to.
const (
	resultsFolder = "benchmarks/results" // with pictures and page
	measuredPath  = "docs/measured.md"
)

// ErrStale means that a document's figures are not those of the result.
var ErrStale = errors.New("its figures are not those of benchmarks/results/latest.json; run: benchmarks/run -render")

// A Document is a file of the project in which figures of the last full run stand.
type Document struct {
	Path    string // in the project
	figures func(*result.Result) string
}

// The documents with figures.
var (
	Readme         = Document{"README.md", readmeFigures}
	Measured       = Document{measuredPath, measuredFigures}
	EventLoopGuide = Document{"docs/guides/event-loop.md", eventLoopFigures}
)

// Documents are all of them.
func Documents() []Document { return []Document{Readme, Measured, EventLoopGuide} }

// UpdateDocuments replaces the figures in all documents of a project.
func UpdateDocuments(root string, r *result.Result) error {
	var err error
	for _, d := range Documents() {
		err = errors.Join(err, d.Update(root, r))
	}
	return err
}

// CheckDocuments returns ErrStale when UpdateDocuments would change one.
func CheckDocuments(root string, r *result.Result) error {
	var err error
	for _, d := range Documents() {
		err = errors.Join(err, d.Check(root, r))
	}
	return err
}

// Update replaces the figures in the document of a project.
func (d Document) Update(root string, r *result.Result) error {
	path := filepath.Join(root, d.Path)
	text, updated, err := withFigures(path, d.figures(r))
	if err != nil || bytes.Equal(text, updated) {
		return err
	}
	return os.WriteFile(path, updated, 0o644)
}

// Check returns ErrStale when Update would change the document.
func (d Document) Check(root string, r *result.Result) error {
	path := filepath.Join(root, d.Path)
	text, updated, err := withFigures(path, d.figures(r))
	if err == nil && !bytes.Equal(text, updated) {
		err = fmt.Errorf("%s: %w", path, ErrStale)
	}
	return err
}

// withFigures returns a file's text as it is and with figures between its marks.
func withFigures(path, figures string) (text, updated []byte, err error) {
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	begin := bytes.Index(text, []byte(beginMark))
	end := bytes.Index(text, []byte(endMark))
	if begin < 0 || end < begin {
		return nil, nil, fmt.Errorf("%s: has no place for figures; it is between the lines %q and %q", path, beginMark, endMark)
	}
	var out bytes.Buffer
	out.Write(text[:begin+len(beginMark)])
	out.WriteString("\n" + strings.TrimRight(figures, "\n") + "\n\n")
	out.Write(text[end:])
	return text, out.Bytes(), nil
}
