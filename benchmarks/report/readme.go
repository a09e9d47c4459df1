package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// readmeFigures are one picture and one table, and where the others are.
func readmeFigures(r *result.Result) string {
	ways := waysTable(ofSmall(r), readmeRows())
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n%s%s\n%s\n\n", ofRun(r), picturesText(r, resultsFolder, OverTimeName), ways.markdown(), strings.Join(ways.Notes, " "))
	if families, compared := notFastest(r); compared > 0 {
		fmt.Fprintf(&out, "In %d of %d comparisons another way, or a floor, was faster than Nearcall's best: [which, by how much, and why](%s#%s).\n",
			rowsOf(families), compared, measuredPath, anchor(notFastestTitle))
	}
	if all := goals(r); len(all) > 0 {
		fmt.Fprintf(&out, "Of %d [goals](%s#%s) %d are met.\n", len(all), measuredPath, anchor(goalsTitle), metOf(all))
	}
	return out.String()
}

// ofRun says which run figures are of, and on what machine it was.
func ofRun(r *result.Result) string {
	return fmt.Sprintf("Measured on %s by `make bench` of revision %s: %s, %d CPUs, kernel %s.",
		r.Date.Format(time.DateOnly), r.Versions.Nearcall, r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel)
}

// anchor is what a heading without marks is referred to by.
func anchor(heading string) string { return strings.ReplaceAll(strings.ToLower(heading), " ", "-") }

// A way is a row that a stranger wants to know first.
type way struct {
	row, says string
	readme    bool // it is one of the few that the README has room for
}

// firstWays are those rows.
var firstWays = []way{
	{"nearcall-c-embed", "C, with Go in the same process", true},
	{"nearcall-perl-embed-typed", "Perl, typed, with Go in the same process", false},
	{"nearcall-python-embed-typed", "Python, typed, with Go in the same process", false},
	{"nearcall-perl-embed-child-typed", "Perl, typed, in a forked child, with Go in its parent", true},
	{"floor-c-cgo", "*floor*: an empty Go function, called from C", false},
	{"nearcall-c-shm", "C, shared memory", true},
	{"nearcall-perl-shm-typed", "Perl, typed, shared memory", true},
	{"nearcall-python-shm-typed", "Python, typed, shared memory", true},
	{"nearcall-go-shm", "Go, shared memory", true},
	{"floor-c-spin", "*floor*: two C processes that bounce 64 bytes through memory", true},
	{"nearcall-c-socket", "C, socket", true},
	{"nearcall-perl-socket-typed", "Perl, typed, socket", false},
	{"nearcall-python-socket-typed", "Python, typed, socket", false},
	{"nearcall-go-socket", "Go, socket", false},
	{"floor-go-socket", "*floor*: a bare echo server in Go, called from C", true},
	{"nearcall-c-shm-pipelined", "C, shared memory, 64 calls in flight; times of all 64", false},
	{"nearcall-go-64-shared", "Go, socket, 64 goroutines on one connection", false},
	{"floor-go-64-connections", "*floor*: the bare server, 64 connections", false},
	{"simple-json", "C, the simple protocol", false},
	{"peer-grpc-64-1", "*for comparison*: gRPC, from Go to Go by a Unix socket", true},
}

// readmeRows are those that the README shows.
func readmeRows() []way {
	var rows []way
	for _, w := range firstWays {
		if w.readme {
			rows = append(rows, w)
		}
	}
	return rows
}

// waysNotes say what the columns are, and how rows are named.
var waysNotes = []string{
	"Calls follow each other without a pause. Calls per second are the mean of a long run where the slowest quarter of a second stands beside them; all other figures are of short rounds in which the rows took turns.",
	apartNote,
	"A floor does none of the work of a call, and shows what the machine costs by itself. A typed call encodes numbers by the description of the function; the others carry 64 bytes as they are.",
}

// waysTable is some of the first rows, of small payloads.
func waysTable(f figures, ways []way) table {
	t := table{Title: "What each way costs", Notes: waysNotes,
		Head: []string{"one call of 64 bytes or less", "calls/s over time", "in the slowest 250 ms", "p50", "p99", "p99.9", "CPU us, caller + server"}}
	p999 := distributed(func(r result.Row) string { return duration(r.P999NS) })
	for _, w := range ways {
		mean, slowest := f.overTime(w.row)
		t.Lines = append(t.Lines, line{Name: w.says, Cells: f.cells(w.row, mean, slowest, medianOf, slowestOf, p999, cpuPerCall)})
	}
	return t
}

// smallMax is the most bytes of what is small.
const smallMax = 64

// ofSmall finds rows whose payload is small.
func ofSmall(r *result.Result) figures {
	small := *r
	small.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row result.Row) bool { return row.Size > smallMax })
	return figuresOf(&small)
}
