package report

import (
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// publishedTransports are of 500 connections with 10,000 round trips each. The last
// two were published as totals: 12,807 and 922, 35,903 and 2,001,527.
var publishedTransports = []struct {
	name, row string
	theirs    [7]string
}{
	{"Unix socket, bare", "transport-unix-500", [7]string{"2.3", "280", "15.6", "19.9", "20.3", "0.00256", "0.000184"}},
	{"TCP on the loopback, bare", "transport-tcp-500", [7]string{"3.7", "296", "26.2", "34.0", "34.5", "0.00718", "0.4"}},
	{"Unix socket, Nearcall", "transport-nearcall-unix-500", [7]string{}},
	{"TCP on the loopback, Nearcall", "transport-nearcall-tcp-500", [7]string{}},
}

// perfColumns are the processor's counters by the ends of their measures' names.
var perfColumns = []struct{ head, event string }{
	{"cycles", "cycles"}, {"instructions", "instructions"}, {"cache misses", "cache_misses"}, {"branch misses", "branch_misses"},
}

var transportColumns = []rowColumn{
	{"least", func(r result.Row) string { return microseconds(r.MinNS) }},
	{"mean", func(r result.Row) string { return microseconds(r.MeanNS) }},
	{"p50", func(r result.Row) string { return microseconds(r.P50NS) }},
	{"p95", func(r result.Row) string { return microseconds(r.P95NS) }},
	{"p99", func(r result.Row) string { return microseconds(r.P99NS) }},
	{"context switches", func(r result.Row) string { return perCall(r.ContextSwitchesPerCall) }},
	{"soft interrupts", func(r result.Row) string { return perCall(r.SoftirqsPerCall) }},
	{"CPU us, caller + server", cpuPerCall},
}

func transportsTable(f figures) table {
	t := table{
		Title: "Unix socket against TCP",
		Notes: []string{perlAccount, "500 connections, 10,000 round trips of 10 bytes on each; times in microseconds. Context switches, soft interrupts, CPU and the processor's counters are for one round trip.",
			"Bare are round trips without functions; Nearcall's are calls of a function, by sockets."},
		Head: []string{"500 connections"},
	}
	for _, column := range transportColumns {
		t.Head = append(t.Head, column.head)
	}
	counted := perfHeads(f)
	t.Head = append(t.Head, counted...)
	for _, p := range publishedTransports {
		l := line{Name: p.name, Cells: f.beside(p.row, p.theirs[:], transportColumns)}
		if len(counted) > 0 {
			l.Cells = append(l.Cells, perfCells(f, p.row)...)
		}
		t.Lines = append(t.Lines, l)
	}
	if why := f.reasons[perfPart]; why != "" {
		t.Notes = append(t.Notes, "The processor's counters are not there: "+clipped(why)+".")
	}
	return t
}

const perfPart = "perf_counters"

// perfHeads are the columns of counters; none where this machine does not show them.
func perfHeads(f figures) []string {
	var heads []string
	for _, column := range perfColumns {
		heads = append(heads, column.head)
	}
	for name := range f.measures {
		if strings.HasPrefix(name, PerfMeasure("", "")) {
			return heads
		}
	}
	return nil
}

func perfCells(f figures, row string) []cell {
	var all []cell
	for _, column := range perfColumns {
		all = append(all, f.measure(PerfMeasure(row, column.event), "", func(m result.Measure) string { return thousands(m.Value) }))
	}
	return all
}

// PerfMeasure is the name of what a processor's counter says of a call of a row.
func PerfMeasure(row, event string) string {
	if row == "" {
		return "perf_"
	}
	return "perf_" + row + "_" + event
}
