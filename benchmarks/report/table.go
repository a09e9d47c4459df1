package report

import (
	"slices"
	"strings"
)

// A table sets what was measured here beside what others have published. Documents and the
// page show the same ones.
type table struct {
	id      string // SECTION/NAME
	Title   string
	Class   string   // how it looks in the page
	Notes   []string // the machine the published figures come from, and what they are
	Head    string   // over the lines' names
	Columns []column
	Lines   []line

	numbered bool // names of lines are numbers
}

type column struct {
	Head   string
	Left   bool // text, and no figures
	figure string
	name   string // of a row or measure, with * in place of what the line has; "" is *
}

// What columns show beside figures of rows.
const (
	ofMeasure = "value"
	ofOthers  = "published"
)

// nameOf is the row or measure that a column shows of a line.
func (c column) nameOf(l line) string {
	if c.name == "" {
		return l.row
	}
	return strings.ReplaceAll(c.name, "*", l.row)
}

// figureOf is what it says of a line.
func (c column) figureOf(l line) string { return strings.ReplaceAll(c.figure, "*", l.row) }

type line struct {
	Name      string
	Under     string // what else is to be known of the line, under its name
	First     bool   // it is one of the few that the README has room for
	row       string
	figure    string // in place of the columns'
	published []string
	Cells     []cell
}

// A cell has a figure of this run, a published one, or both.
type cell struct {
	Here, Theirs string
	// Missing says that Here was to be measured and was not, Why the reason if one is
	// known.
	Missing bool
	Failed  bool // or else it was left out
	Why     string
	Span    int    // how many columns it takes, if it is more than one
	Covered bool   // it is taken by another
	name    string // of the row or measure
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

// spanned makes one cell of those beside each other that lack the same row, if nothing
// was published beside them.
func spanned(cells []cell) []cell {
	for begin := 0; begin < len(cells); {
		first := &cells[begin]
		end := begin + 1
		for end < len(cells) && first.lacksSame(cells[end]) {
			cells[end] = cell{Covered: true}
			end++
		}
		if end > begin+1 {
			first.Span = end - begin
		}
		begin = end
	}
	return cells
}

func (c cell) lacksSame(other cell) bool {
	return c.Missing && other.Missing && c.name == other.name && c.Theirs+other.Theirs == ""
}

func (t table) section() string { section, _, _ := strings.Cut(t.id, "/"); return section }

// ID is what the page refers to.
func (t table) ID() string { return strings.ReplaceAll(t.id, "/", "-") }

// Note is all notes.
func (t table) Note() string { return strings.Join(t.Notes, " ") }

// FirstLines is the table with those lines alone.
func (t table) FirstLines() table {
	t.Lines = slices.DeleteFunc(slices.Clone(t.Lines), func(l line) bool { return !l.First })
	return t
}

// has reports whether a column has a cell that is so.
func (t table) has(column int, so func(cell) bool) bool {
	return slices.ContainsFunc(t.Lines, func(l line) bool { return so(l.Cells[column]) })
}

func (t table) any(so func(cell) bool) bool {
	return slices.ContainsFunc(t.Lines, func(l line) bool { return slices.ContainsFunc(l.Cells, so) })
}

func isHere(c cell) bool      { return c.Here != "" }
func isPublished(c cell) bool { return c.Theirs != "" }

// Measured reports whether there is any figure of this run.
func (t table) Measured() bool { return t.any(isHere) }

// HasPublished reports whether the table has published figures beside those of this run.
func (t table) HasPublished() bool { return t.any(isPublished) }

// Markdown writes the table. Published figures have columns of their own.
func (t table) Markdown() string {
	type part struct {
		head string
		left bool
		says func(line) string
	}
	parts := []part{{t.Head, !t.numbered, func(l line) string { return l.Name }}}
	for i, c := range t.Columns {
		published := t.has(i, isPublished)
		alone := published && !t.has(i, func(c cell) bool { return c.Here != "" || c.Missing })
		if !alone {
			parts = append(parts, part{c.Head + either(t.HasPublished(), " here", ""), c.Left, func(l line) string { return l.Cells[i].text() }})
		}
		if published {
			parts = append(parts, part{either(alone, c.Head, "published"), c.Left, func(l line) string { return l.Cells[i].Theirs }})
		}
	}
	head, rule, lines := "|", "\n|", ""
	for _, p := range parts {
		head += strings.TrimRight(" "+p.head, " ") + " |"
		rule += either(p.left, "---|", "---:|")
	}
	for _, l := range t.Lines {
		lines += "\n|"
		for _, p := range parts {
			lines += " " + p.says(l) + " |"
		}
	}
	return head + rule + lines + "\n"
}

// text is what this run says; that a figure is not there, it says too.
func (c cell) text() string {
	if c.Missing {
		return strings.ReplaceAll(c.Absent(), "|", `\|`)
	}
	return c.Here
}
