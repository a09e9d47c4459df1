package report

import (
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A table sets what was measured here beside what others have published.
type table struct {
	Title string
	Notes []string // the machine the published figures come from, and what they are
	Head  []string // one more than a line has cells: the first is over the lines' names
	Lines []line
}

type line struct {
	Name  string
	Cells []cell
}

// A cell has a figure of this run, a published one, or both.
type cell struct {
	Here, Theirs string
	// Missing says that Here was to be measured and was not, Why the reason if there
	// is one.
	Missing bool
	Why     string
}

// theirs is a line of published figures alone.
func theirs(name string, published ...string) line {
	l := line{Name: name}
	for _, figure := range published {
		l.Cells = append(l.Cells, cell{Theirs: figure})
	}
	return l
}

// measured reports whether there is any figure of this run.
func (t table) measured() bool {
	for _, line := range t.Lines {
		for _, cell := range line.Cells {
			if cell.Here != "" {
				return true
			}
		}
	}
	return false
}

// published reports whether a column has published figures.
func (t table) published(column int) bool {
	for _, line := range t.Lines {
		if line.Cells[column].Theirs != "" {
			return true
		}
	}
	return false
}

// markdown writes the table with a column for each kind of figure; "" where nothing of
// it was measured.
func (t table) markdown() string {
	if !t.measured() {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "| %s |", t.Head[0])
	rule := "|---|"
	for i, head := range t.Head[1:] {
		fmt.Fprintf(&out, " %s here |", head)
		rule += "---:|"
		if t.published(i) {
			out.WriteString(" published |")
			rule += "---:|"
		}
	}
	out.WriteString("\n" + rule + "\n")
	for _, line := range t.Lines {
		fmt.Fprintf(&out, "| %s |", line.Name)
		for i, cell := range line.Cells {
			fmt.Fprintf(&out, " %s |", cell.text())
			if t.published(i) {
				fmt.Fprintf(&out, " %s |", cell.Theirs)
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// text is what this run says; that a figure is not there, it says too.
func (c cell) text() string {
	switch {
	case c.Why != "":
		return "failed"
	case c.Missing:
		return "not measured"
	}
	return c.Here
}

// figures finds what a run has measured by name. The first of a name stands.
type figures struct {
	rows     map[string]result.Row
	measures map[string]result.Measure
}

func figuresOf(r *result.Result) figures {
	f := figures{map[string]result.Row{}, map[string]result.Measure{}}
	for _, row := range r.Rows {
		if _, known := f.rows[row.Name]; !known {
			f.rows[row.Name] = row
		}
	}
	for _, measure := range r.Measures {
		f.measures[measure.Name] = measure
	}
	return f
}

// row is a cell with what a row says, or why it says nothing.
func (f figures) row(name, theirs string, says func(result.Row) string) cell {
	row, known := f.rows[name]
	switch {
	case !known:
		return cell{Theirs: theirs, Missing: true}
	case row.Failed != "":
		return cell{Theirs: theirs, Missing: true, Why: row.Failed}
	}
	return cell{Here: says(row), Theirs: theirs}
}

// measure is a cell with what a measure says.
func (f figures) measure(name, theirs string, says func(result.Measure) string) cell {
	measure, known := f.measures[name]
	if !known {
		return cell{Theirs: theirs, Missing: true}
	}
	return cell{Here: says(measure), Theirs: theirs}
}
