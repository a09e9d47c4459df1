package report

import (
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A verdict is a line of what was measured, and the goal that this keeps or not; nil if
// there is none.
type verdict struct {
	line
	goal *result.Goal
}

func verdictOf(name, bytes, measured string, goal *result.Goal, write func(float64) string) verdict {
	bound, kept := "", ""
	if goal != nil {
		bound, kept = boundOf(goal, write), "**not met**"
		if goal.Met {
			kept = "met"
		}
	}
	return verdict{line{Name: name, Cells: []cell{{Here: bytes}, {Here: bound}, {Here: measured}, {Here: kept}}}, goal}
}

// verdicts is a table of those comparisons and measures that are to be shown.
func (r run) verdicts(id, title string, shown func(*result.Goal) bool) verdicts {
	var all []verdict
	for _, c := range r.Comparisons {
		measured := value(c, c.Value)
		if c.NotMeasured != "" {
			measured = "not measured: " + c.NotMeasured
		}
		all = append(all, verdictOf(comparison(c), thousands(c.Of.Size), measured, c.Goal, func(v float64) string { return value(c, v) }))
	}
	for _, m := range r.Measures {
		write := number
		if m.Unit == "bytes" {
			write = mebibytes
		}
		all = append(all, verdictOf(strings.ReplaceAll(m.Name, "_", " "), "", quantity(m), m.Goal, write))
	}
	v := verdicts{table: table{id: id, Title: title, Class: "goals", Head: "goal", Columns: []column{{Head: "bytes"}, {Head: "bound"}, {Head: "measured"}, {Left: true}}}}
	for _, one := range all {
		if shown(one.goal) {
			v.Lines = append(v.Lines, one.line)
		}
		if one.goal != nil && one.goal.Met {
			v.Met++
		}
	}
	return v
}

type verdicts struct {
	table
	Met int // of all goals
}

// Goals are all goals, Open those that are not met, and Kept those that are. Counts is what
// was compared or measured, with and without a goal.
func (r run) Goals() verdicts {
	return r.verdicts("goals", "Goals", func(g *result.Goal) bool { return g != nil })
}
func (r run) Open() verdicts {
	return r.verdicts("goals/open", "Not met", func(g *result.Goal) bool { return g != nil && !g.Met })
}
func (r run) Kept() verdicts {
	return r.verdicts("goals/met", "Met", func(g *result.Goal) bool { return g != nil && g.Met })
}
func (r run) Counts() verdicts {
	return r.verdicts("counts", "Comparisons, and measures that are not times of calls", func(*result.Goal) bool { return true })
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

// boundOf writes what a goal allows.
func boundOf(g *result.Goal, write func(float64) string) string {
	switch {
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
