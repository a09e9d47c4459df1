package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A rowColumn is what a table of rows tells of each.
type rowColumn struct {
	head string
	says func(result.Row) string
}

// rowColumns are all that rows tell. A table has those in which one of its rows has
// something.
var rowColumns = slices.Concat([]rowColumn{
	{"bytes", func(r result.Row) string { return thousands(float64(r.Size)) }},
	{"callers", func(r result.Row) string { return thousands(float64(r.Callers)) }},
	{"p50", medianOf},
	{"p99", slowestOf},
	{"p99.9", distributed(func(r result.Row) string { return duration(r.P999NS) })},
	{"calls/s", perSecond},
}, windowColumns, besideColumns, []rowColumn{
	{"CPU us a call, caller + server", cpuPerCall},
	{"least", distributed(func(r result.Row) string { return duration(r.MinNS) })},
	{"mean", distributed(func(r result.Row) string { return duration(r.MeanNS) })},
	{"p95", distributed(func(r result.Row) string { return duration(r.P95NS) })},
	{"longest", distributed(func(r result.Row) string { return duration(r.MaxNS) })},
	{"deviation", distributed(func(r result.Row) string { return duration(r.StdDevNS) })},
	{"beyond mean + 3 deviations", distributed(func(r result.Row) string { return fmt.Sprintf("%.2f %%", 100*r.OutliersShare) })},
	{"calls", func(r result.Row) string { return whole(r.Calls) }},
	{"calls timed together", func(r result.Row) string { return whole(int64(r.CallsPerSample)) }},
	{"rounds", func(r result.Row) string { return whole(int64(r.Rounds)) }},
	{"ms a round", func(r result.Row) string { return whole(int64(r.RoundMS)) }},
	{"ms of warm-up", func(r result.Row) string { return whole(int64(r.WarmUpMS)) }},
	{"went by", func(r result.Row) string { return r.Transport }},
	{"engine", func(r result.Row) string { return r.Engine }},
	{"held to", func(r result.Row) string { return r.Pinning }},
	{"GOMAXPROCS", func(r result.Row) string { return whole(int64(r.GoMaxProcs)) }},
	{"context switches a call", func(r result.Row) string { return perCall(r.ContextSwitchesPerCall) }},
	{"soft interrupts a call", func(r result.Row) string { return perCall(r.SoftirqsPerCall) }},
})

// alwaysColumns are how many of them stand in every table and for every row, failed or
// not.
const alwaysColumns = 2

// distributed is a column of rows whose samples were counted.
func distributed(says func(result.Row) string) func(result.Row) string {
	return func(r result.Row) string {
		if r.Histogram == nil {
			return ""
		}
		return says(r)
	}
}

// whole writes a number that is there.
func whole(n int64) string {
	if n == 0 {
		return ""
	}
	return thousands(float64(n))
}

// rowsTable is everything of rows.
func rowsTable(title string, rows []result.Row) table {
	t := table{Title: title, Head: []string{"row"}}
	var columns []rowColumn
	for i, column := range rowColumns {
		if i < alwaysColumns || anyHas(rows, column) {
			columns = append(columns, column)
			t.Head = append(t.Head, column.head)
		}
	}
	for _, row := range rows {
		l := line{Name: row.Name}
		for i, column := range columns {
			if row.Failed != "" && i == alwaysColumns {
				l.Cells = append(l.Cells, cell{Missing: true, Failed: true, Why: row.Failed, Span: len(columns) - alwaysColumns})
				break
			}
			l.Cells = append(l.Cells, cell{Here: column.says(row)})
		}
		t.Lines = append(t.Lines, l)
	}
	return t
}

func anyHas(rows []result.Row, column rowColumn) bool {
	for _, row := range rows {
		if row.Failed == "" && column.says(row) != "" {
			return true
		}
	}
	return false
}

// measuresTable is what was measured that is no time of calls.
func measuresTable(measures []result.Measure) table {
	t := table{Title: "Measures that are not times of calls", Head: []string{"measure", "value", "goal"}}
	for _, m := range measures {
		t.Lines = append(t.Lines, line{Name: strings.ReplaceAll(m.Name, "_", " "), Cells: []cell{{Here: quantity(m)}, {Here: strings.TrimPrefix(judged(boundOf(m), m.Goal), "goal ")}}})
	}
	return t
}
