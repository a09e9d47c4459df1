package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/nearcall/nearcall/benchmarks/result"
)

//go:embed documents.tmpl
var documentsText string

var documentsTemplate = template.Must(template.New("documents").Parse(documentsText))

// emptyLines follow each other where a template left something out.
var emptyLines = regexp.MustCompile(`\n{3,}`)

// text is what one of the templates says of a result.
func text(name string, r *result.Result) (string, error) {
	var out strings.Builder
	err := documentsTemplate.ExecuteTemplate(&out, name, runOf(r))
	return strings.TrimSpace(emptyLines.ReplaceAllString(out.String(), "\n\n")) + "\n", err
}

// The marks between which the figures of a document stand. Nothing else of it is touched.
const (
	beginMark = "<!-- figures of benchmarks/results/latest.json: begin -->\n"
	endMark   = "<!-- figures of benchmarks/results/latest.json: end -->\n"
)

// A Document is a file of the project in which figures of the last full run stand.
type Document struct{ Path string }

// The documents with figures.
var (
	Readme         = Document{"README.md"}
	Measured       = Document{"docs/measured.md"}
	EventLoopGuide = Document{"docs/guides/event-loop.md"}
	CostsGuide     = Document{"docs/guides/costs.md"}
)

// Documents are all of them.
func Documents() []Document { return []Document{Readme, Measured, EventLoopGuide, CostsGuide} }

// UpdateDocuments replaces the figures in all documents of a project.
func UpdateDocuments(root string, r *result.Result) error {
	return each(file.write, documents, root, r)
}

// CheckDocuments returns ErrStale when UpdateDocuments would change one.
func CheckDocuments(root string, r *result.Result) error { return each(file.check, documents, root, r) }

func documents(root string, r *result.Result) (all []file, err error) {
	for _, d := range Documents() {
		f, wrong := d.file(root, r)
		if err = errors.Join(err, wrong); wrong == nil {
			all = append(all, f)
		}
	}
	return all, err
}

// file is the document with the figures of a result between its marks.
func (d Document) file(root string, r *result.Result) (file, error) {
	f := file{path: filepath.Join(root, d.Path)}
	held, err := os.ReadFile(f.path)
	if err != nil {
		return f, err
	}
	before, rest, begins := bytes.Cut(held, []byte(beginMark))
	_, after, ends := bytes.Cut(rest, []byte(endMark))
	if !begins || !ends {
		return f, fmt.Errorf("%s: has no place for figures; it is between the lines %q and %q", f.path, beginMark, endMark)
	}
	figures, err := text(d.Path, r)
	f.content = fmt.Appendf(nil, "%s%s\n%s\n%s%s", before, beginMark, figures, endMark, after)
	return f, err
}
