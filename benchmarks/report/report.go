// Package report writes a result for people: on a terminal, in documents, and as a page
// with its pictures.
package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// Print writes the whole result as tables.
func Print(to io.Writer, r *result.Result) error {
	fmt.Fprintf(to, "%s, %d CPUs, kernel %s, virtualisation %s, idle driver %s\n",
		r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel, r.Machine.Virtualisation, r.Machine.IdleDriver)
	fmt.Fprintf(to, "%d rounds of %d ms, %s; percentiles of every call, calls/s the median over rounds; pinning %s\n\n", r.Method.Rounds, r.Method.RoundMS, r.Method.Order, r.Method.Pinning)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	printRows(table, r)
	for _, c := range r.Comparisons {
		fmt.Fprintf(table, "%s\t%d\t\t%s\t%s\n", comparison(c), c.Of.Size, valueOf(c), judgement(c))
	}
	fmt.Fprintln(table)
	for _, measure := range r.Measures {
		fmt.Fprintf(table, "%s\t\t\t%s\t%s\n", measure.Name, quantity(measure), judged(boundOf(measure), measure.Goal))
	}
	for _, left := range r.LeftOut {
		fmt.Fprintf(table, "%s: %s\n", left.Group, left.Why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	f := figuresOf(r)
	for _, published := range slices.Concat(overTimeTables(f), publishedTables(f), callersTables(f)) {
		if text := published.markdown(); text != "" {
			fmt.Fprintf(to, "\n%s\n\n%s", strings.Join(published.Notes, " "), text)
		}
	}
	return nil
}

func printRows(to io.Writer, r *result.Result) {
	fmt.Fprintln(to, "row\tbytes\tcallers\tp50\tp99\tp99.9\tcalls/s\tCPU s per million calls: caller\tserver")
	for _, row := range r.Rows {
		if row.Failed != "" {
			fmt.Fprintf(to, "%s\t%d\t%d\tfailed: %s\n", row.Name, row.Size, row.Callers, row.Failed)
			continue
		}
		fmt.Fprintf(to, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, row.Size, row.Callers,
			medianOfEach(row), slowestOfEach(row), each(row.P999NS, row), thousands(row.PerS), cpu(row.CallerCPU), cpu(row.ServerCPU))
	}
	fmt.Fprintln(to)
}

// valueOf writes what a comparison came to.
func valueOf(c result.Comparison) string {
	if c.NotMeasured != "" {
		return "not measured: " + c.NotMeasured
	}
	return value(c, c.Value)
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
		return strconv.FormatFloat(v, 'f', 2, 64)
	case c.Of.Figure == result.FigurePerS:
		return thousands(v) + " calls/s"
	}
	return duration(int64(v))
}

// judgement says a comparison's goal and whether it was kept; nothing when there is
// none.
func judgement(c result.Comparison) string {
	if c.Goal == nil {
		return ""
	}
	return judged(bound(c.Goal, func(v float64) string { return value(c, v) }), c.Goal)
}

func judged(bound string, g *result.Goal) string {
	if g == nil {
		return ""
	}
	verdict := "NOT met"
	if g.Met {
		verdict = "met"
	}
	return "goal " + bound + "  " + verdict
}

// bound writes what a goal allows.
func bound(g *result.Goal, write func(float64) string) string {
	switch {
	case g.AtMost != nil:
		return "<= " + write(*g.AtMost)
	case g.Under != nil:
		return "< " + write(*g.Under)
	}
	return ">= " + write(*g.AtLeast)
}

func boundOf(m result.Measure) string {
	if m.Goal == nil {
		return ""
	}
	if m.Unit == "bytes" {
		return bound(m.Goal, mebibytes)
	}
	return bound(m.Goal, number)
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
