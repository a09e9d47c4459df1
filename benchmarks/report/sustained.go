package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/chart"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// Conditions in which calls are sustained: the groups' names, which end those of their rows.
const (
	Sustained = "sustained" // nobody has the machine beside
	Played    = "played"    // a played host takes its CPUs away
	Neighbour = "neighbour" // a neighbour burns one of them
)

// conditionOf is the condition that a row's calls are sustained in, which is left out as a
// whole where it cannot be had; "" for other rows.
func conditionOf(row string) string {
	last := row[strings.LastIndexByte(row, '-')+1:]
	if last == Sustained || last == Played || last == Neighbour {
		return last
	}
	return ""
}

const spinFloor = "floor-c-spin"

// hotRows are those that spin, and the socket beside them, in the order of the tables.
var hotRows = []struct{ name, says string }{
	{"nearcall-c-shm", "C, shared memory"},
	{"nearcall-c-shm-typed", "C, typed, shared memory"},
	{"nearcall-perl-shm", "Perl, shared memory"},
	{"nearcall-perl-shm-typed", "Perl, typed, shared memory"},
	{"nearcall-python-shm", "Python, shared memory"},
	{"nearcall-python-shm-typed", "Python, typed, shared memory"},
	{"nearcall-go-shm", "Go, shared memory"},
	{spinFloor, "*floor*: two C processes that bounce 64 bytes through memory"},
	{"nearcall-c-socket", "C, socket"},
}

// socketRows are those that only stand beside a neighbour.
var socketRows = []struct{ name, says string }{
	{"nearcall-perl-socket", "Perl, socket"}, {"nearcall-python-socket", "Python, socket"}, {"nearcall-go-socket", "Go, socket"},
}

// A condition is one that calls are sustained in, as tables and charts have it.
type condition struct{ name, title, note, drawn string }

// conditions are in the order of the tables.
var conditions = []condition{
	{Sustained, "Calls over time, with nothing else on the machine",
		"One caller calls without a pause, and its calls are counted by windows of a quarter of a second: no time is left out, and the mean of a call is the time divided by the calls.",
		"Calls per second over time, by one caller that never pauses"},
	{Played, "Calls over time, on a played host",
		"The same while each CPU is taken away for 0.2 to 5 ms at random, a tenth of the time, by a thread with real-time priority, as a hypervisor does whose other guests are busy.",
		"The same on a played host"},
	{Neighbour, "Calls over time, beside a neighbour",
		"The same while a program that computes wants one of the CPUs all the time. What it had of that CPU beside calls through shared memory is to be compared with what it had beside calls by the socket.",
		"The same beside a neighbour"},
}

// overTimeTables are what callers got over time, in each condition.
func overTimeTables(f figures) []table {
	var tables []table
	for _, c := range conditions {
		tables = append(tables, overTimeTable(f, c))
	}
	return append(tables, severalOverTimeTable(f))
}

// severalRows are those of several callers, and of half a CPU for both sides.
var severalRows = []struct{ name, says string }{
	{ProcessesSuffix(4), "4 callers"}, {ProcessesSuffix(16), "16 callers"}, {ProcessesSuffix(64), "64 callers"}, {"half-cpu", "one caller, half a CPU for both sides"},
}

func severalOverTimeTable(f figures) table {
	t := table{Title: "Calls over time, of several callers, and under a quota", Head: overTimeHead,
		Notes: []string{"Callers in C call without a pause, and the calls of all of them are counted together by windows of a quarter of a second. The mean of a call is the time divided by the calls that one of them made."}}
	for _, row := range severalRows {
		for _, way := range []struct{ name, says string }{{"shm", "shared memory"}, {"socket", "socket"}} {
			t.Lines = append(t.Lines, line{Name: row.says + ", " + way.says, Cells: f.cells("nearcall-c-"+way.name+"-"+row.name, overTimeColumns()...)})
		}
	}
	return t
}

var overTimeHead = []string{"calls per second", "mean", "slowest window", "p10", "median", "best",
	"time below " + thousands(result.SlowPerS), "time below a fifth of the best", "mean / best", "mean / p50 of a call"}

func overTimeTable(f figures, c condition) table {
	t := table{Title: c.title, Notes: []string{c.note}, Head: append(slices.Clone(overTimeHead), "mean / floor")}
	rows := hotRows
	if c.name == Neighbour {
		rows = append(rows[:len(rows):len(rows)], socketRows...)
	}
	columns := append(overTimeColumns(), func(r result.Row) string { return f.ofFloor(r, c.name) })
	if c.name != Sustained {
		t.Head = append(t.Head, "CPUs of who else")
		columns = append(columns, ofSustained(func(s *result.Sustained) string { return fmt.Sprintf("%.2f", s.BesideCPUs) }))
	}
	for _, row := range rows {
		name := row.name + "-" + c.name
		t.Lines = append(t.Lines, line{Name: row.says, Cells: f.cells(name, columns...)})
		if ms := f.rows[name].RoundMS; ms > 0 && len(t.Notes) == 1 {
			t.Notes = append(t.Notes, fmt.Sprintf("Each row lasted %g s.", float64(ms)/1000))
		}
	}
	return t
}

// ofFloor is a row's mean rate as a share of the floor's in the same condition.
func (f figures) ofFloor(r result.Row, condition string) string {
	floor, c := f.find(spinFloor + "-" + condition)
	if c.Missing || floor.PerS == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.PerS/floor.PerS)
}

// ofSustained is a column of rows that are counted by windows.
func ofSustained(says func(*result.Sustained) string) func(result.Row) string {
	return func(r result.Row) string {
		if r.Sustained == nil {
			return ""
		}
		return says(r.Sustained)
	}
}

// What windows say, in tables of rows and of conditions.
var windowColumns = []rowColumn{
	{"slowest window, calls/s", ofSustained(func(s *result.Sustained) string { return thousands(s.LeastPerS) })},
	{"p10 of windows", ofSustained(func(s *result.Sustained) string { return thousands(s.P10PerS) })},
	{"median window", ofSustained(func(s *result.Sustained) string { return thousands(s.MedianPerS) })},
	{"best window", ofSustained(func(s *result.Sustained) string { return thousands(s.MostPerS) })},
	{"time below " + thousands(result.SlowPerS) + "/s", ofSustained(func(s *result.Sustained) string { return percent(s.BelowSlowShare) })},
	{"time below a fifth of the best", ofSustained(func(s *result.Sustained) string { return percent(s.BelowFifthShare) })},
	{"mean / best window", ofBest},
	{"mean / p50", ofSustained(func(s *result.Sustained) string { return fmt.Sprintf("%.2f", s.MeanOfP50) })},
}

// besideColumns tell of who else had the machine.
var besideColumns = []rowColumn{
	{"beside", ofSustained(func(s *result.Sustained) string { return s.Beside })},
	{"CPUs of that", ofSustained(func(s *result.Sustained) string {
		if s.Beside == "" {
			return ""
		}
		return fmt.Sprintf("%.2f", s.BesideCPUs)
	})},
}

// ofBest is a row's mean rate as a share of its best window's.
func ofBest(r result.Row) string {
	if r.Sustained == nil || r.Sustained.MostPerS == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.PerS/r.Sustained.MostPerS)
}

func overTimeColumns() []func(result.Row) string {
	columns := []func(result.Row) string{perSecond}
	for _, column := range windowColumns {
		columns = append(columns, column.says)
	}
	return columns
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// overTime are two columns of a first row: its calls per second over all time, those without
// a pause where it is one that spins, and those of the slowest window.
func (f figures) overTime(name string) (mean, slowest func(result.Row) string) {
	nothing := func(result.Row) string { return "" }
	if !slices.ContainsFunc(hotRows, func(hot struct{ name, says string }) bool { return hot.name == name }) {
		return meanPerSecond, nothing
	}
	row, c := f.find(name + "-" + Sustained)
	if c.Missing {
		return meanPerSecond, func(result.Row) string { return c.Absent() }
	}
	return func(result.Row) string { return perSecond(row) }, func(result.Row) string { return windowColumns[0].says(row) }
}

// meanPerSecond is of all rounds, which are as long as each other.
func meanPerSecond(r result.Row) string {
	if len(r.PerSRounds) == 0 {
		return perSecond(r)
	}
	var sum float64
	for _, perS := range r.PerSRounds {
		sum += perS
	}
	return thousands(sum / float64(len(r.PerSRounds)))
}

// apartMost is how many times the mean of a call may be its median, or the other way
// around, before tables say so.
const apartMost = 1.5

// apart is the mean, where it is far from the median: then most calls say little of what
// a caller gets over time.
func apart(r result.Row) string {
	mean, median := float64(r.MeanNS), float64(r.P50NS)
	if mean == 0 || median == 0 || mean <= apartMost*median && median <= apartMost*mean {
		return ""
	}
	return " (mean " + each(r.MeanNS, r) + ")"
}

// apartNote says what that is.
const apartNote = "Where the mean time of a call and p50 are more than 1.5 times apart, the mean stands beside p50."

// drawnOverTime are the ways whose calls over time are drawn, where nothing else is said
// through shared memory.
var drawnOverTime = []struct{ row, says string }{
	{"nearcall-c-shm", "C"},
	{"nearcall-perl-shm-typed", "Perl"},
	{"nearcall-python-shm-typed", "Python"},
	{"nearcall-go-shm", "Go"},
	{"nearcall-c-socket", "C by socket"},
	{spinFloor, "floor"},
}

// overTimeChart draws the windows of a condition; false where there are none.
func overTimeChart(f figures, c condition) (figure, bool) {
	drawn := chart.Lines{Says: c.drawn, X: "time", Y: "calls per second", XLabel: chart.Seconds, YLabel: chart.Rate, Timeline: true}
	var missing []string
	for _, way := range drawnOverTime {
		row, _ := f.find(way.row + "-" + c.name)
		if row.Failed != "" || row.Sustained == nil || len(row.Sustained.PerSWindows) == 0 {
			missing = append(missing, way.says)
			continue
		}
		drawn.Lines = append(drawn.Lines, overTimeLine(way.says, row.Sustained))
	}
	return figure{drawn, missing}, len(drawn.Lines) > 0
}

// overTimeLine is a row's windows, each at its end. One without a call is drawn as if it had
// one, for a logarithmic axis has no 0.
func overTimeLine(says string, s *result.Sustained) chart.Line {
	l := chart.Line{Name: says}
	seconds := float64(s.WindowMS) / 1000
	for i, perS := range s.PerSWindows {
		l.X, l.Y = append(l.X, float64(i+1)*seconds), append(l.Y, max(perS, 1/seconds))
	}
	return l
}
