package report

import (
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A verdict is what was measured, and whether that keeps a goal, if there is one.
type verdict struct {
	Name, Bytes, Bound, Measured string
	Goal                         *result.Goal
}

// verdicts are all comparisons and measures.
func (r run) verdicts() (all []verdict) {
	for _, c := range r.Comparisons {
		measured := value(c, c.Value)
		if c.NotMeasured != "" {
			measured = "not measured: " + c.NotMeasured
		}
		all = append(all, verdict{comparison(c), thousands(c.Of.Size), bound(c.Goal, func(v float64) string { return value(c, v) }), measured, c.Goal})
	}
	for _, m := range r.Measures {
		write := number
		if m.Unit == "bytes" {
			write = mebibytes
		}
		all = append(all, verdict{strings.ReplaceAll(m.Name, "_", " "), "", bound(m.Goal, write), quantity(m), m.Goal})
	}
	return all
}

// Goals is the table of all goals, and how many are met.
func (r run) Goals() goals {
	return goalsOf(r.verdicts(), func(v verdict) bool { return v.Goal != nil })
}

type goals struct {
	table
	Met, All int
}

func goalsOf(all []verdict, shown func(verdict) bool) goals {
	g := goals{table: table{Title: "Goals", Class: "goals", Head: "goal", Columns: []column{{Head: "bytes"}, {Head: "bound"}, {Head: "measured"}, {Left: true}}}}
	for _, v := range all {
		if !shown(v) {
			continue
		}
		kept := ""
		switch g.All++; {
		case v.Goal == nil:
		case v.Goal.Met:
			kept = "met"
			g.Met++
		default:
			kept = "**not met**"
		}
		g.Lines = append(g.Lines, line{Name: v.Name, Cells: []cell{{Here: v.Bytes}, {Here: v.Bound}, {Here: v.Measured}, {Here: kept}}})
	}
	return g
}

// Kept are the goals that are met, or those that are not.
func (r run) Kept(met bool) table {
	t := goalsOf(r.verdicts(), func(v verdict) bool { return v.Goal != nil && v.Goal.Met == met }).table
	t.id, t.Title = "goals/open", "Not met"
	if met {
		t.id, t.Title = "goals/met", "Met"
	}
	return t
}

// Counts is all that was compared or measured and is no time of calls.
func (r run) Counts() table {
	t := goalsOf(r.verdicts(), func(verdict) bool { return true }).table
	t.id, t.Title, t.Head = "counts", "Comparisons, and measures that are not times of calls", "what"
	return t
}

// comparison says what is compared.
func comparison(c result.Comparison) string {
	if c.With == nil {
		return c.Of.Row + ", " + c.Of.Figure
	}
	sign := " / "
	if c.Kind == result.KindDifference {
		sign = " - "
	}
	if c.Of.Row == c.With.Row && c.Of.Size == c.With.Size {
		return c.Of.Row + ", " + c.Of.Figure + sign + c.With.Figure
	}
	return c.Of.Row + sign + c.With.Row + ", " + c.Of.Figure
}

// value writes a figure of a comparison, its result or its bound, in its unit.
func value(c result.Comparison, v float64) string {
	switch {
	case c.Of.Figure == result.FigureBelow:
		return percent(v)
	case c.Kind == result.KindRatio || c.Of.Figure == result.FigureOfMost || c.Of.Figure == result.FigureMeanOfP50:
		return factor(v)
	case c.Of.Figure == result.FigurePerS:
		return thousands(v) + " calls/s"
	}
	return duration(int64(v))
}

// bound writes what a goal allows.
func bound(g *result.Goal, write func(float64) string) string {
	switch {
	case g == nil:
		return ""
	case g.AtMost != nil:
		return "<= " + write(*g.AtMost)
	case g.Under != nil:
		return "< " + write(*g.Under)
	}
	return ">= " + write(*g.AtLeast)
}

// quantity writes a measure in the unit that suits it.
func quantity(m result.Measure) string {
	switch {
	case m.Unit == "bytes":
		return mebibytes(m.Value)
	case m.Value >= 1e4:
		return thousands(m.Value) + " " + m.Unit
	}
	return number(m.Value) + " " + m.Unit
}

// A gap is what was not measured for one reason.
type gap struct {
	Names  []string
	Why    string
	Failed bool // or else this machine cannot
}

// Text lists what it is, with the reason.
func (g gap) Text() string { return sentence(strings.Join(g.Names, ", ") + ": " + g.Why) }

// Gaps returns what is missing, by reasons.
func (r run) Gaps() (all []gap) {
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
	if r.Quick {
		return all // which has the most important groups
	}
	for _, name := range Wants().Rows {
		if _, c := r.find(name); c.Missing && !c.Failed && c.Why == "" {
			add(name, "this run has no such row", false)
		}
	}
	return all
}
