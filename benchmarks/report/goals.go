package report

import (
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A goal is a bound, what was measured, and whether that keeps it.
type goal struct {
	Name, Bytes, Bound, Measured string
	Met                          bool
}

// goals returns all goals of a result.
func goals(r *result.Result) []goal {
	var all []goal
	for _, c := range r.Comparisons {
		if c.Goal != nil {
			all = append(all, goal{comparison(c), thousands(float64(c.Of.Size)),
				bound(c.Goal, func(v float64) string { return value(c, v) }), valueOf(c), c.Goal.Met})
		}
	}
	for _, m := range r.Measures {
		if m.Goal != nil {
			all = append(all, goal{strings.ReplaceAll(m.Name, "_", " "), "", boundOf(m), quantity(m), m.Goal.Met})
		}
	}
	return all
}

// goalsTable is goals for the page.
func goalsTable(title, id string, all []goal) section {
	t := table{Title: title, Head: []string{"goal", "bytes", "bound", "measured", "kept"}}
	for _, g := range all {
		verdict := "not met"
		if g.Met {
			verdict = "met"
		}
		t.Lines = append(t.Lines, line{Name: g.Name, Cells: []cell{{Here: g.Bytes}, {Here: strings.ReplaceAll(g.Bound, " ", "\u00a0")}, {Here: g.Measured}, {Here: verdict}}})
	}
	return section{table: t, ID: id, Class: "goals"}
}

// A gap is what was not measured for one reason.
type gap struct {
	Names  []string
	Why    string
	Failed bool // or else this machine cannot
}

// Name lists what it is.
func (g gap) Name() string { return strings.Join(g.Names, ", ") }

// notMeasured returns what is missing, by reasons.
func notMeasured(r *result.Result) []gap {
	var all []gap
	add := func(name, why string, failed bool) {
		for i := range all {
			if all[i].Why == why && all[i].Failed == failed {
				all[i].Names = append(all[i].Names, name)
				return
			}
		}
		all = append(all, gap{[]string{name}, why, failed})
	}
	for _, left := range r.LeftOut {
		add(left.Group, left.Why, left.Failed)
	}
	for _, row := range r.Rows {
		if row.Failed != "" {
			add(row.Name, row.Failed, true)
		}
	}
	for _, name := range absent(r) {
		add(name, "this run has no such row", false)
	}
	return all
}

// absent are rows that the report shows and a full run does not have, with no reason.
func absent(r *result.Result) []string {
	if r.Quick {
		return nil // which has the most important groups
	}
	f := figuresOf(r)
	var names []string
	for _, name := range Wants().Rows {
		if _, c := f.find(name); c.Missing && !c.Failed && c.Why == "" {
			names = append(names, name)
		}
	}
	return names
}
