package report_test

import (
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/internal/windows"
)

// overTime is a result with a row that spins, in short rounds and without a pause.
func overTime() *result.Result {
	short := result.Row{Name: "nearcall-c-shm", Group: "small", Size: 64, Callers: 1, P50NS: 400, P99NS: 900, MeanNS: 500,
		PerS: 2_000_000, PerSRounds: []float64{2_000_000, 2_100_000}, Histogram: &result.Histogram{}}
	socket := result.Row{Name: "nearcall-go-socket", Group: "small", Size: 64, Callers: 1, P50NS: 10_000, P99NS: 20_000, MeanNS: 16_000,
		PerS: 90_000, PerSRounds: []float64{90_000, 90_000, 30_000}, Histogram: &result.Histogram{}}
	long := func(name, condition string, perS float64, s result.Sustained) result.Row {
		return result.Row{Name: name + "-" + condition, Group: condition, Size: 64, Callers: 1, P50NS: 500, MeanNS: int64(1e9 / perS), PerS: perS, RoundMS: 15_000, Sustained: &s}
	}
	rates := windows.Rates{LeastPerS: 12_000, P10PerS: 130_000, MedianPerS: 450_000, MostPerS: 2_500_000}
	return &result.Result{Schema: result.Schema, Rows: []result.Row{short, socket,
		long("nearcall-c-shm", report.Sustained, 400_000, result.Sustained{Rates: rates, BelowSlowShare: 0.25, BelowFifthShare: 0.6, MeanOfP50: 5}),
		long("floor-c-spin", report.Sustained, 8_000_000, result.Sustained{Rates: windows.Rates{LeastPerS: 7_000_000}, MeanOfP50: 1.01}),
		long("nearcall-c-shm", report.Neighbour, 300_000, result.Sustained{Rates: rates, Beside: "a program", BesideCPUs: 0.654}),
	}}
}

// The first table shows what rows that spin give over time, and not in short rounds.
func TestDocumentsShowCallsOverTime(t *testing.T) {
	for _, d := range []report.Document{report.Readme, report.Measured} {
		wantIn(t, shown(t, d, overTime()), "| C, shared memory | 400,000 | 12,000 | 0.40 us | 0.90 us | 0.00 us | not counted |", "| Perl, typed, shared memory | not measured |")
	}
	text := shown(t, report.Measured, overTime())
	wantIn(t, text,
		"| Go, socket | 70,000 |  | 10.0 us (mean 16.0 us) | 20.0 us | 0.00 us | not counted |",
		"| C, shared memory | 400,000 | 12,000 | 130,000 | 450,000 | 2,500,000 | 25.0 % | 60.0 % | 0.16 | 5.00 | 0.05 |",
		"| C, shared memory | 300,000 | 12,000 | 130,000 | 450,000 | 2,500,000 | 0.0 % | 0.0 % | 0.12 | 0.00 |  | 0.65 |",
		"the mean of a call is the time divided by the calls. Each row lasted 15 s.")
	wantNotIn(t, text, "0.2 to 5 ms") // of a condition that nothing was measured in
}

// Where the first table has no row of so long it says so, and does not pass short rounds
// off as that.
func TestDocumentsSayThatNothingWasSustained(t *testing.T) {
	r := overTime()
	r.Rows = r.Rows[:2]
	for _, d := range []report.Document{report.Readme, report.Measured} {
		wantIn(t, shown(t, d, r), "| C, shared memory | 2,050,000 | not measured | 0.40 us | 0.90 us | 0.00 us | not counted |")
	}
}

// What cannot be had has a reason, once, and not for every row.
func TestConditionThatIsLeftOutHasOneReason(t *testing.T) {
	r := overTime()
	r.LeftOut = []result.LeftOut{{Group: report.Played, Why: "real-time priority is not permitted"}}
	text := shown(t, report.Measured, r)
	wantIn(t, text, "* played: real-time priority is not permitted.")
	wantNotIn(t, text, "shm-played")
}

// Windows are drawn in their order, those without a call too, and a way without windows is
// named.
func TestCallsOverTimeAreDrawn(t *testing.T) {
	r := overTime()
	wantNotIn(t, shown(t, report.Readme, r), "![") // of no windows
	s := rowOf(r, "nearcall-c-shm-"+report.Sustained).Sustained
	s.WindowMS, s.PerSWindows = 250, []float64{400_000, 0, 12_000}
	text := shown(t, report.Readme, r)
	wantIn(t, text, "(benchmarks/results/over-time.png)", "not in the picture: Perl, Python, Go, C by socket, floor.")
	folder, page := written(t, r)
	wantIn(t, page, `aria-label="Calls per second over time`, ">0 s<")
	s.PerSWindows = []float64{400_000, 12_000, 0}
	if err := report.Check(folder, r); err == nil || !strings.Contains(err.Error(), "over-time.png") {
		t.Errorf("windows in another order are not drawn: %v", err)
	}
}

// Rows whose mean and median are far apart are marked wherever their median stands.
func TestMeansFarFromMediansAreMarked(t *testing.T) {
	for meanNS, mark := range map[int64]string{1500: "", 1501: " (mean 1.50 us)", 667: "", 666: " (mean 0.67 us)", 0: ""} {
		r := &result.Result{Schema: result.Schema, Rows: []result.Row{{Name: "a", P50NS: 1000, MeanNS: meanNS, Histogram: &result.Histogram{}}}}
		_, page := written(t, r)
		wantIn(t, printed(t, r), "| 1.00 us"+mark+" |")
		wantIn(t, page, "<td>1.00 us"+mark+"</td>")
	}
}

// Goals that are shares or factors are not written as times.
func TestGoalsOverTimeAreWrittenAsWhatTheyAre(t *testing.T) {
	figure := func(name string) result.Figure {
		return result.Figure{Row: "nearcall-c-shm-sustained", Size: 64, Figure: name}
	}
	r := &result.Result{Schema: result.Schema, Comparisons: []result.Comparison{
		compared(result.KindAlone, figure(result.FigureOfMost), nil, 0.5, result.AtLeast(0.75)),
		compared(result.KindAlone, figure(result.FigureBelow), nil, 0.015, result.AtMost(0.02)),
		compared(result.KindAlone, figure(result.FigureMeanOfP50), nil, 1.25, result.AtMost(1.5)),
	}}
	wantIn(t, printed(t, r), "mean_of_most | 64 | >= 0.75 | 0.50 | **not met** |", "below_slow_share | 64 | <= 2.0 % | 1.5 % | met |", "mean_of_p50 | 64 | <= 1.50 | 1.25 | met |")
}
