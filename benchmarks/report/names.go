package report

import (
	"regexp"
	"slices"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A Wanted is what the report shows of rows, by their names: a run whose rows are named
// otherwise would leave it empty.
type Wanted struct {
	Rows     []string
	Patterns []*regexp.Regexp // each is of some rows
}

// Wants returns the names that tables and charts look for, whatever the run.
func Wants() Wanted {
	nothing := &result.Result{}
	f := figuresOf(nothing)
	publishedTables(f)
	callersTables(f)
	waysTable(f, firstWays)
	overTimeTables(f)
	rows := *f.asked
	for _, way := range mainDistributions {
		rows = append(rows, way.row)
	}
	slices.Sort(rows)
	w := Wanted{Rows: slices.Compact(rows), Patterns: []*regexp.Regexp{peerName}}
	for _, s := range slices.Concat(processSeries, sizeSeries) {
		w.Patterns = append(w.Patterns, s.pattern)
	}
	for _, p := range publishedCrossings {
		w.Patterns = append(w.Patterns, regexp.MustCompile("^"+p.row+`-busy-\d+$`))
	}
	for _, reason := range reasons {
		w.Patterns = append(w.Patterns, reason.row)
	}
	return Wanted{w.Rows, append(w.Patterns, works...)}
}
