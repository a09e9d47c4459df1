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

// A gap is something that was not measured, and why.
type gap struct {
	Name, Why string
	Failed    bool // or else this machine cannot
}

func notMeasured(r *result.Result) []gap {
	var all []gap
	for _, left := range r.LeftOut {
		all = append(all, gap{left.Group, left.Why, left.Failed})
	}
	for _, row := range r.Rows {
		if row.Failed != "" {
			all = append(all, gap{row.Name, row.Failed, true})
		}
	}
	return all
}
