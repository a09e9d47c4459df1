// Package report writes a result for people: on a terminal, in documents, and as a page
// with its pictures. What tables and charts show is in shown.txt, what stands around them
// in documents.tmpl and page.html, and why others are faster in reasons.txt.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// nothing is a run in which nothing was measured.
var nothing = &result.Result{}

func sortedKeys[K cmp.Ordered, V any](of map[K]V) []K { return slices.Sorted(maps.Keys(of)) }

// rules are the lines of Markdown under the heads of tables.
var rules = regexp.MustCompile(`(?m)^\|---.*\n`)

// Print writes the whole result as tables, whose columns are aligned.
func Print(to io.Writer, r *result.Result) error {
	all, err := text("terminal", r)
	if err != nil {
		return err
	}
	aligned := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	if _, err := io.WriteString(aligned, strings.ReplaceAll(rules.ReplaceAllString(all, ""), " |", "\t|")); err != nil {
		return err
	}
	return aligned.Flush()
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"sentence": sentence, "plain": func(name string) string { return strings.ReplaceAll(name, "*", "") },
	"link":  func(text string) bool { return strings.HasPrefix(text, "https://") },
	"drawn": func(f Figure) (template.HTML, error) { svg, err := f.SVG(); return template.HTML(svg), err }, //nolint:gosec // plot escapes names
}).Parse(pageText))

// page writes the result as one page that needs nothing else.
func page(r *result.Result) ([]byte, error) {
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, runOf(r))
	return out.Bytes(), err
}

// Day is that of the run.
func (r run) Day() string { return r.Date.Format(time.DateOnly) }

// A group is the rows that took turns.
type group struct {
	Name string
	Rows []result.Row
}

// Groups are the rows by their groups, in the order in which they ran.
func (r run) Groups() (all []group) {
	at := map[string]int{}
	for _, row := range r.Rows {
		if _, known := at[row.Group]; !known {
			at[row.Group] = len(all)
			all = append(all, group{Name: row.Group})
		}
		of := &all[at[row.Group]]
		of.Rows = append(of.Rows, row)
	}
	return all
}

// Table is all figures of the rows.
func (g group) Table() table {
	return rowsTable(table{id: "rows/" + g.Name, Title: "All figures of " + g.Name, Class: "rows", Head: "row"}, g.Rows, rowFigures)
}

// ShortRows is a table of all rows for a terminal.
func (r run) ShortRows() table {
	var figures []figure
	for _, name := range []string{"bytes", "callers", "p50 of each", "p99 of each", "p99.9 of each", "calls/s", "CPU us, caller + server"} {
		figures = append(figures, figure{name, r.figure(name)})
	}
	return rowsTable(table{Head: "row"}, r.Rows, figures)
}

// alwaysFigures are how many of the first stand for every row, failed or not. Of the others
// a table has those that one of its rows has.
const alwaysFigures = 2

func rowsTable(t table, rows []result.Row, all []figure) table {
	t.Lines = make([]line, len(rows))
	for i, row := range rows {
		t.Lines[i].Name = row.Name
	}
	for n, f := range all {
		always := n < alwaysFigures
		if !always && !slices.ContainsFunc(rows, func(row result.Row) bool { return row.Failed == "" && f.says(row) != "" }) {
			continue
		}
		t.Columns = append(t.Columns, column{Head: f.name})
		for i, row := range rows {
			c := cell{Missing: true, Failed: true, Why: row.Failed, name: row.Name}
			if row.Failed == "" || always {
				c = cell{Here: f.says(row)}
			}
			t.Lines[i].Cells = append(t.Lines[i].Cells, c)
		}
	}
	for i := range t.Lines {
		t.Lines[i].Cells = spanned(t.Lines[i].Cells)
	}
	return t
}

// Stolen is how many seconds of CPUs the hypervisor took during the run.
func (r run) Stolen() float64 { return r.LoadAfter.StealS - r.LoadBefore.StealS }
