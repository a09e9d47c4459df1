// Package report writes a result for people: on a terminal and in the README.
package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// Print writes the whole result as tables.
func Print(to io.Writer, r *result.Result) error {
	fmt.Fprintf(to, "%s, %d CPUs, kernel %s, virtualisation %s, idle driver %s\n",
		r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel, r.Machine.Virtualisation, r.Machine.IdleDriver)
	fmt.Fprintf(to, "median of %d rounds of %d ms, %s; pinning %s\n\n", r.Method.Rounds, r.Method.RoundMS, r.Method.Order, r.Method.Pinning)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "row\tbytes\tcallers\tp50\tp99\tcalls/s\tCPU s per million calls: caller\tserver")
	for _, row := range r.Rows {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t%s\t%.2f\t%.2f\n", row.Name, row.Size, row.Callers,
			microseconds(row.P50NS), microseconds(row.P99NS), thousands(row.PerS), row.CallerCPU, row.ServerCPU)
	}
	fmt.Fprintln(table)
	for _, ratio := range r.Ratios {
		fmt.Fprintf(table, "%s\t%d\t%s\t%.2f\t%s\n", ratio.Above+" / "+ratio.Below, ratio.Size, ratio.Figure, ratio.Value, judgement(ratio.Goal))
	}
	fmt.Fprintln(table)
	for _, measure := range r.Measures {
		fmt.Fprintf(table, "%s\t\t\t%s\t%s\n", measure.Name, quantity(measure), judgement(measure.Goal))
	}
	return table.Flush()
}

// judgement says a goal and whether it was kept; nothing when there is none.
func judgement(g *result.Goal) string {
	if g == nil {
		return ""
	}
	verdict := "NOT met"
	if g.Met {
		verdict = "met"
	}
	return "goal " + bound(g) + "  " + verdict
}

func bound(g *result.Goal) string {
	if g.AtMost != nil {
		return "<= " + number(*g.AtMost)
	}
	return ">= " + number(*g.AtLeast)
}

func quantity(m result.Measure) string {
	if m.Unit == "bytes" {
		return fmt.Sprintf("%.1f MiB", m.Value/(1<<20))
	}
	return number(m.Value) + " " + m.Unit
}

func number(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func microseconds(ns int64) string { return fmt.Sprintf("%.1f us", float64(ns)/1000) }

// thousands writes a whole number with a comma before each group of three digits.
func thousands(value float64) string {
	digits := strconv.FormatFloat(value, 'f', 0, 64)
	var out strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(digit)
	}
	return out.String()
}
