package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// What it takes beside calling, as planned.
const (
	serversStart    = 100 * time.Millisecond
	callerStart     = 60 * time.Millisecond // interpreters with their modules take twice this
	nextCallerStart = 8 * time.Millisecond
	roundEnds       = 5 * time.Millisecond
	// Reading and sorting the samples of a fast row takes this share of its round.
	samplesShare = 0.1
)

// A part measures what is not a time of a row.
type part struct {
	name   string
	quick  bool          // whether a quick run has it too
	length time.Duration // about; 0: it looks at what was measured with rows, in no time
	// measure may look at the rows that were measured before.
	measure func(context.Context, []measuredRow) ([]result.Measure, error)
}

// A schedule is what a run measures.
type schedule struct {
	pace   pace
	groups []group
	parts  []part
}

// schedule returns what a run with that pace and filter measures. parts are all there are.
func (f filter) schedule(p pace, groups []group, parts []part) schedule {
	s := schedule{pace: p}
	for _, group := range f.groups(groups) {
		if p.quick && f.pattern == nil {
			group = group.inQuick()
		}
		if len(group.rows) > 0 {
			s.groups = append(s.groups, group)
		}
	}
	for _, part := range parts {
		there := part.quick || !p.quick || f.pattern != nil
		if part.length == 0 {
			there = len(s.groups) > 0
		}
		if there && f.wants(part.name) {
			s.parts = append(s.parts, part)
		}
	}
	return s
}

// startOf is how long a row's callers take to start and to warm up.
func (p pace) startOf(row rowPlan) time.Duration {
	return callerStart + time.Duration(row.processes-1)*nextCallerStart + row.startsIn + p.warmUp
}

// turnOf is how long one turn of a row takes.
func (p pace) turnOf(row rowPlan) time.Duration {
	length := p.length
	if !p.quick {
		length = max(length, row.about)
	}
	turn := length + roundEnds + time.Duration(row.processes)*togetherPerCaller
	if row.perSecond == 0 {
		turn += time.Duration(samplesShare * float64(length))
	}
	return turn
}

// lengthOf is how long a group takes.
func (p pace) lengthOf(g group) time.Duration {
	p = p.of(g)
	length := serversStart
	for _, row := range g.rows {
		length += p.startOf(row) + time.Duration(p.rounds)*p.turnOf(row)
	}
	return length
}

func (s schedule) length() time.Duration {
	var all time.Duration
	for _, group := range s.groups {
		all += s.pace.lengthOf(group)
	}
	for _, part := range s.parts {
		all += part.length
	}
	return all
}

// print writes what would be measured and how long it would take.
func (s schedule) print(to io.Writer) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "rows\trounds\tms each\tseconds\t  group or part")
	for _, group := range s.groups {
		p := s.pace.of(group)
		fmt.Fprintf(table, "%d\t%d\t%d\t%.1f\t  %s\n", len(group.rows), p.rounds, p.length.Milliseconds(), s.pace.lengthOf(group).Seconds(), group.name)
	}
	for _, part := range s.parts {
		fmt.Fprintf(table, "\t\t\t%.1f\t  %s\n", part.length.Seconds(), part.name)
	}
	fmt.Fprintf(table, "\t\t\t%.1f\t  in all, %s\n", s.length().Seconds(), s.length().Round(time.Second))
	return table.Flush()
}
