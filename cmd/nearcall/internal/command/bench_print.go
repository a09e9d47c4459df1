package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/windows"
)

// print shows one setting in full and several in a table.
func (b *benching) print(r *benchReport) {
	if len(r.Rows) == 1 {
		b.printOne(r)
		return
	}
	fmt.Fprintf(b.out, "%s, %s; times in µs\n", styleFor(b.out).bold(r.Function), b.manner())
	table := newBenchTable(len(b.payloadBytes) > 0, min(windows.Length, b.roundLength()))
	for _, row := range r.Rows {
		table.add(row)
	}
	fmt.Fprint(b.out, table.String())
}

func (b *benching) printOne(r *benchReport) {
	row := r.Rows[0]
	fmt.Fprintf(b.out, "%s by %s, %s, %s\n", styleFor(b.out).bold(r.Function), row.Transport, countOf(row.Callers, "caller"), b.manner())
	line := func(name, value string) { fmt.Fprintf(b.out, "    %-13s %12s\n", name, value) }
	line("calls", fmt.Sprint(row.Calls))
	if row.FailedCalls > 0 {
		line("failed", fmt.Sprint(row.FailedCalls))
	}
	if b.rate > 0 {
		line("missed", fmt.Sprint(row.Missed))
	}
	line("per second", fmt.Sprintf("%.0f", row.PerS))
	if row.Windows != nil {
		line(slowestWindow(row.Windows.LengthNs), fmt.Sprintf("%.0f", row.Windows.LeastPerS))
	}
	for _, figure := range []struct {
		name string
		took time.Duration
	}{{"mean", row.MeanNs}, {"p50", row.P50Ns}, {"p90", row.P90Ns}, {"p99", row.P99Ns}, {"p99.9", row.P999Ns}, {"max", row.MaxNs}} {
		line(figure.name, benchTime(figure.took)+" µs")
	}
	line("CPU, caller", benchTime(row.CallerCPUNs)+" µs")
	server := "not readable"
	if row.ServerCPUNs != nil {
		server = benchTime(*row.ServerCPUNs) + " µs"
	}
	line("CPU, server", server)
}

// slowestWindow names the calls per second of a window in which they were fewest.
func slowestWindow(length time.Duration) string { return fmt.Sprintf("slowest %v", shortened(length)) }

// manner says how the calls of all settings were made.
func (b *benching) manner() string {
	var words []string
	if b.shared {
		words = append(words, "on one connection")
	}
	if b.rate > 0 {
		words = append(words, fmt.Sprintf("%v calls per second", b.rate))
	}
	length := fmt.Sprintf("%v after %v of warm-up", shortened(b.roundLength()), b.warmUp)
	if b.rounds > 1 {
		length = fmt.Sprintf("%d rounds of %s", b.rounds, length)
	}
	return strings.Join(append(words, length), ", ")
}

// shortened leaves out digits that say nothing.
func shortened(t time.Duration) time.Duration {
	if t < time.Millisecond {
		return t
	}
	return t.Round(time.Millisecond)
}

func countOf(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}

// transportsText tells how connections carried calls, and how many each way if it was
// not the same for all.
func transportsText(connections map[string]int) string {
	ways := slices.SortedFunc(maps.Keys(connections), func(a, b string) int {
		return cmp.Or(connections[b]-connections[a], strings.Compare(a, b))
	})
	if len(ways) == 1 {
		return ways[0]
	}
	for i, way := range ways {
		ways[i] = fmt.Sprintf("%s (%d)", way, connections[way])
	}
	return strings.Join(ways, " and ")
}

// benchTime shows a time in microseconds, so that a column of them can be compared.
func benchTime(t time.Duration) string {
	return fmt.Sprintf("%.2f", float64(t)/float64(time.Microsecond))
}

// A benchTable has a row for each setting. Numbers stand right, in columns as wide as
// the widest needs; what follows in words takes no part in that.
type benchTable struct {
	payloads bool
	lines    []benchLine
}

type benchLine struct {
	cells []string
	words string   // instead of figures
	notes []string // below them
}

func newBenchTable(payloads bool, window time.Duration) *benchTable {
	t := &benchTable{payloads: payloads}
	t.lines = []benchLine{{cells: append(t.setting("callers", "bytes", "transport"),
		"per second", slowestWindow(window), "mean", "p50", "p50 by round", "p99", "p99.9", "CPU caller", "CPU server")}}
	return t
}

func (t *benchTable) setting(callers, bytes, transport string) []string {
	if t.payloads {
		return []string{bytes, callers, transport}
	}
	return []string{callers, transport}
}

func (t *benchTable) add(row *benchRow) {
	bytes := ""
	if row.PayloadBytes != nil {
		bytes = fmt.Sprint(*row.PayloadBytes)
	}
	line := benchLine{cells: t.setting(fmt.Sprint(row.Callers), bytes, cmp.Or(row.Transport, "-"))}
	if row.Failed != "" {
		line.words = "failed: " + row.Failed
		t.lines = append(t.lines, line)
		return
	}
	server := "-"
	if row.ServerCPUNs != nil {
		server = benchTime(*row.ServerCPUNs)
	}
	rounds := benchTime(slices.Min(row.P50NsRounds)) + "-" + benchTime(slices.Max(row.P50NsRounds))
	slowest := "-"
	if row.Windows != nil {
		slowest = fmt.Sprintf("%.0f", row.Windows.LeastPerS)
	}
	line.cells = append(line.cells, fmt.Sprintf("%.0f", row.PerS), slowest, benchTime(row.MeanNs), benchTime(row.P50Ns), rounds, benchTime(row.P99Ns), benchTime(row.P999Ns),
		benchTime(row.CallerCPUNs), server)
	if row.FailedCalls > 0 {
		line.notes = append(line.notes, fmt.Sprintf("%s failed: %s", countOf(int(row.FailedCalls), "call"), row.Failure))
	}
	if row.Missed > 0 {
		line.notes = append(line.notes, countOf(int(row.Missed), "call")+" missed: due and never begun")
	}
	t.lines = append(t.lines, line)
}

func (t *benchTable) String() string {
	widths := make([]int, len(t.lines[0].cells))
	for _, line := range t.lines {
		for i, cell := range line.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, line := range t.lines {
		for i, cell := range line.cells {
			fmt.Fprintf(&text, "  %*s", widths[i], cell)
		}
		if line.words != "" {
			fmt.Fprintf(&text, "  %s", line.words)
		}
		text.WriteByte('\n')
		for _, note := range line.notes {
			fmt.Fprintf(&text, "      %s\n", note)
		}
	}
	return text.String()
}
