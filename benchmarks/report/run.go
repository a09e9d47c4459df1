package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A run is a result, with the tables and charts that show it.
type run struct {
	*result.Result
	rows     map[string]result.Row // of each name the one with the fewest bytes, and as NAME:BYTES all
	measures map[string]result.Measure
	reasons  map[string]string // why a row, part or group was left out
	tables   []table           // without their cells
	charts   []drawing
	asked    map[string]bool // names of rows that tables ask for
}

func runOf(of *result.Result) run {
	r := run{Result: of, rows: map[string]result.Row{}, measures: map[string]result.Measure{}, reasons: map[string]string{}, asked: map[string]bool{}}
	for _, row := range of.Rows {
		if other, known := r.rows[row.Name]; !known || row.Size < other.Size {
			r.rows[row.Name] = row
		}
		r.rows[fmt.Sprintf("%s:%d", row.Name, row.Size)] = row
	}
	for _, measure := range of.Measures {
		r.measures[measure.Name] = measure
	}
	for _, left := range of.LeftOut {
		if !strings.HasPrefix(left.Group, peersPrefix) { // there the group is named before the peer
			for name := range strings.SplitSeq(left.Group, ", ") {
				r.reasons[name] = left.Why
			}
		}
		r.reasons[left.Group] = left.Why
	}
	r.tables, r.charts = described(r)
	for _, t := range r.tables {
		for _, l := range t.Lines {
			for _, c := range t.Columns {
				if l.row != "" && c.figure != ofMeasure && c.figure != ofOthers {
					r.asked[c.nameOf(l)] = true
				}
			}
		}
	}
	return r
}

// lastWord is what a name has behind its last hyphen.
func lastWord(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// find returns a row that has figures, or else a cell that says why not.
func (r run) find(name string) (result.Row, cell) {
	row, known := r.rows[name]
	switch {
	case !known: // it, its condition, its peer, or all residents may be left out
		return row, cell{Missing: true, Why: cmp.Or(r.reasons[name], r.reasons[lastWord(name)], r.reasons[peerLeftOut(name)])}
	case row.Failed != "":
		return row, cell{Missing: true, Failed: true, Why: row.Failed}
	}
	return row, cell{}
}

// cell is what a column says of a line.
func (r run) cell(l line, c column, published string) cell {
	if l.row == "" || c.figure == ofOthers {
		return cell{Theirs: published}
	}
	name := c.nameOf(l)
	if c.figure == ofMeasure {
		if measure, known := r.measures[name]; known {
			return cell{Here: thousands(measure.Value), Theirs: published}
		}
		return cell{Theirs: published, Missing: true, Why: r.reasons["residents"], name: name}
	}
	row, found := r.find(name)
	found.name, found.Theirs = name, published
	if !found.Missing {
		found.Here = r.figure(cmp.Or(l.figure, c.figureOf(l)))(row)
	}
	return found
}

// filled is a table with its cells.
func (r run) filled(t table) table {
	t.Lines = slices.Clone(t.Lines)
	for i, l := range t.Lines {
		for n, c := range t.Columns {
			published := ""
			if n < len(l.published) {
				published = l.published[n]
			}
			l.Cells = append(l.Cells, r.cell(l, c, published))
		}
		t.Lines[i].Cells = spanned(l.Cells)
	}
	return t
}

// Tables are those of some sections, or of those names.
func (r run) Tables(names ...string) (all []table) {
	for _, t := range r.tables {
		if slices.Contains(names, t.section()) || slices.Contains(names, t.id) {
			all = append(all, r.filled(t))
		}
	}
	return all
}

// Measured are those of them in which something was measured.
func (r run) Measured(names ...string) []table {
	return slices.DeleteFunc(r.Tables(names...), func(t table) bool { return !t.Measured() })
}
