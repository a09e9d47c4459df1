package report

import (
	"cmp"
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
	Under string // what else is to be known of the line, under its name
}

// A cell has a figure of this run, a published one, or both.
type cell struct {
	Here, Theirs string
	// Missing says that Here was to be measured and was not, Why the reason if one is
	// known.
	Missing bool
	Failed  bool // or else it was left out
	Why     string
	Span    int // how many columns it takes; 0 is one
}

// Absent is what stands in the place of figures that are missing; where there is room,
// with the reason.
func (c cell) Absent() string {
	says := "not measured"
	if c.Failed {
		says = "failed"
	}
	if c.Why != "" && c.Span > 1 {
		says += ": " + clipped(c.Why)
	}
	return says
}

// reasonMax is how much of a reason stands in a table; all of it is where gaps are.
const reasonMax = 140

func clipped(reason string) string {
	reason = strings.Join(strings.Fields(reason), " ")
	letters := []rune(reason)
	if len(letters) <= reasonMax {
		return reason
	}
	return string(letters[:reasonMax]) + "..."
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

// columns are a line's cells with an empty one for each further column that a cell takes.
func (l line) columns() []cell {
	var all []cell
	for _, c := range l.Cells {
		all = append(all, c)
		for n := 1; n < c.Span; n++ {
			all = append(all, cell{})
		}
	}
	return all
}

// has reports whether a column has a cell that is so.
func (t table) has(column int, so func(cell) bool) bool {
	for _, line := range t.Lines {
		if so(line.columns()[column]) {
			return true
		}
	}
	return false
}

// A kind of column is those figures of cells that are of this run, or published.
type kind struct {
	head string // after that of the table
	says func(cell) string
}

// HasPublished reports whether the table has published figures beside those of this run.
func (t table) HasPublished() bool {
	for i := range t.Head[1:] {
		if len(t.Lines) > 0 && t.has(i, func(c cell) bool { return c.Theirs != "" }) {
			return true
		}
	}
	return false
}

// here tells figures of this run from published ones, in a table that has both.
func (t table) here() string {
	if t.HasPublished() {
		return " here"
	}
	return ""
}

// kinds are those that a column has.
func (t table) kinds(column int) []kind {
	var all []kind
	published := t.has(column, func(c cell) bool { return c.Theirs != "" })
	if !published || t.has(column, func(c cell) bool { return c.Here != "" || c.Missing }) {
		all = append(all, kind{t.Head[column+1] + t.here(), cell.text})
	}
	if published {
		head := "published"
		if len(all) == 0 {
			head = t.Head[column+1]
		}
		all = append(all, kind{head, func(c cell) string { return c.Theirs }})
	}
	return all
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
	var columns [][]kind
	for i := range t.Head[1:] {
		columns = append(columns, t.kinds(i))
		for _, kind := range columns[i] {
			fmt.Fprintf(&out, " %s |", kind.head)
			rule += "---:|"
		}
	}
	out.WriteString("\n" + rule + "\n")
	for _, line := range t.Lines {
		fmt.Fprintf(&out, "| %s |", line.Name)
		for i, cell := range line.columns() {
			for _, kind := range columns[i] {
				fmt.Fprintf(&out, " %s |", kind.says(cell))
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// text is what this run says; that a figure is not there, it says too.
func (c cell) text() string {
	if c.Missing {
		return strings.ReplaceAll(c.Absent(), "|", `\|`)
	}
	return c.Here
}

// figures finds what a run has measured by name. The first of a name stands.
type figures struct {
	rows     map[string]result.Row
	measures map[string]result.Measure
	reasons  map[string]string // why a row, part or group was left out
	asked    *[]string         // the names of rows that were looked for
}

func figuresOf(r *result.Result) figures {
	f := figures{map[string]result.Row{}, map[string]result.Measure{}, map[string]string{}, new([]string)}
	for _, row := range r.Rows {
		if _, known := f.rows[row.Name]; !known {
			f.rows[row.Name] = row
		}
	}
	for _, measure := range r.Measures {
		f.measures[measure.Name] = measure
	}
	for _, left := range r.LeftOut {
		if !strings.HasPrefix(left.Group, peersPrefix) { // there the group is named before the peer
			for name := range strings.SplitSeq(left.Group, ", ") {
				f.reasons[name] = left.Why
			}
		}
		f.reasons[left.Group] = left.Why
	}
	return f
}

// find returns a row that has figures, or else a cell that says why not.
func (f figures) find(name string) (result.Row, cell) {
	*f.asked = append(*f.asked, name)
	row, known := f.rows[name]
	switch {
	case !known:
		return row, cell{Missing: true, Why: cmp.Or(f.reasons[name], f.reasons[conditionOf(name)], f.reasons[peerLeftOut(name)])}
	case row.Failed != "":
		return row, cell{Missing: true, Failed: true, Why: row.Failed}
	}
	return row, cell{}
}

// row is a cell with what a row says, or why it says nothing.
func (f figures) row(name, theirs string, says func(result.Row) string) cell {
	row, c := f.find(name)
	if !c.Missing {
		c.Here = says(row)
	}
	c.Theirs = theirs
	return c
}

// cells are several figures of a row, or one cell that says why there are none.
func (f figures) cells(name string, columns ...func(result.Row) string) []cell {
	row, c := f.find(name)
	if c.Missing {
		c.Span = len(columns)
		return []cell{c}
	}
	var all []cell
	for _, says := range columns {
		all = append(all, cell{Here: says(row)})
	}
	return all
}

// beside are several figures of a row, each beside a published one where there are such.
func (f figures) beside(name string, theirs []string, columns []rowColumn) []cell {
	var all []cell
	published := false
	for i, column := range columns {
		says := ""
		if i < len(theirs) {
			says = theirs[i]
		}
		published = published || says != ""
		all = append(all, f.row(name, says, column.says))
	}
	if all[0].Missing && !published {
		all[0].Span = len(columns)
		return all[:1]
	}
	return all
}

// measure is a cell with what a measure says.
func (f figures) measure(name, theirs string, says func(result.Measure) string) cell {
	measure, known := f.measures[name]
	if !known {
		return cell{Theirs: theirs, Missing: true, Why: f.reasons[partOf(name)]}
	}
	return cell{Here: says(measure), Theirs: theirs}
}

// partOf is the part whose measures are named so; "" for one that no table shows.
func partOf(measure string) string {
	if strings.HasPrefix(measure, residentMeasures) {
		return "residents"
	}
	return ""
}

// What columns say of a row.
func medianOf(r result.Row) string  { return duration(r.P50NS) + apart(r) }
func slowestOf(r result.Row) string { return duration(r.P99NS) }

// The same of each call, where a sample is of several together.
func medianOfEach(r result.Row) string  { return each(r.P50NS, r) + apart(r) }
func slowestOfEach(r result.Row) string { return each(r.P99NS, r) }

// each writes the time of one call.
func each(ns int64, r result.Row) string {
	if r.CallsPerSample <= 1 {
		return duration(ns)
	}
	return durationOfEach(float64(ns) / float64(r.CallsPerSample))
}

func perSecond(r result.Row) string  { return thousands(r.PerS) }
func cpuPerCall(r result.Row) string { return cpuOfAll(r) }
