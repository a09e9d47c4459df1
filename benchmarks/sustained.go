package main

import (
	"math"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
	"github.com/nearcall/nearcall/internal/windows"
)

// A condition is what the machine is like while calls are sustained.
type condition struct {
	name   string // of the group, and the end of its rows' names
	beside *company
}

var conditions = []condition{{report.Sustained, nil}, {report.Played, playedHost}, {report.Neighbour, neighbour}}

// What is wanted of calls that are made without a pause.
const (
	ofMostLeast       = 0.75
	ofFloorLeast      = 0.2
	slowShareMost     = 0.02
	meanOfP50Most     = 1.5
	meanOfP50MostElse = 2 // from Perl, Python and Go
	// Beside a neighbour: how many times the calls of the socket, and what of the CPU that
	// the neighbour has beside the socket it keeps.
	ofSocketLeast    = 1.5
	neighboursCPUSet = 0.9
)

func ofSustained() []result.Comparison {
	var all []result.Comparison
	for _, c := range conditions[:2] {
		suffix := "-" + c.name
		own := func(figure string) result.Figure { return small("nearcall-c-shm"+suffix, figure) }
		all = append(all,
			alone(own(result.FigureOfMost), result.AtLeast(ofMostLeast)),
			ratio(own(result.FigurePerS), small("floor-c-spin"+suffix, result.FigurePerS), result.AtLeast(ofFloorLeast)),
			alone(own(result.FigureBelow), result.AtMost(slowShareMost)),
			alone(own(result.FigureMeanOfP50), result.AtMost(meanOfP50Most)))
		for _, language := range []string{"perl", "python", "go"} {
			name := "nearcall-" + language + "-shm" + suffix
			all = append(all,
				alone(small(name, result.FigureOfMost), result.AtLeast(ofMostLeast)),
				alone(small(name, result.FigureMeanOfP50), result.AtMost(meanOfP50MostElse)))
		}
	}
	for _, language := range []string{"c", "perl", "python", "go"} {
		by := func(way, figure string) result.Figure {
			return small("nearcall-"+language+"-"+way+"-"+report.Neighbour, figure)
		}
		all = append(all,
			ratio(by("shm", result.FigurePerS), by("socket", result.FigurePerS), result.AtLeast(ofSocketLeast)),
			ratio(by("shm", result.FigureBesideCPUs), by("socket", result.FigureBesideCPUs), result.AtLeast(neighboursCPUSet)))
	}
	return all
}

// Figures of rounds that are counted by windows.

func mean(values []float64) (mean float64) {
	for _, value := range values {
		mean += value / float64(len(values))
	}
	return mean
}

func ofMost(r round) float64 { return r.perSecond / windows.RatesOf(r.windows, r.window).MostPerS }

func shareBelow(r round) float64 { return windows.ShareBelow(r.windows, r.window, result.SlowPerS) }

// meanOfP50 is of one caller, whose calls fill all the time; of several each has its share.
func meanOfP50(r round) float64 { return 1e9 / r.perSecond / r.p50 }

func besideCPUs(r round) float64 { return r.beside }

// addSustained adds what is told by windows.
func (m measuredRow) addSustained(row *result.Row) {
	if m.plan.window == 0 {
		return
	}
	var counts []uint64
	for _, r := range m.rounds {
		counts = append(counts, r.windows...)
	}
	if counts == nil {
		return // the rounds were shorter than one
	}
	callers := float64(max(m.plan.callers, 1))
	row.PerS = math.Round(mean(m.figures(perSecond)))
	row.MeanNS = int64(callers * 1e9 / row.PerS)
	s := &result.Sustained{
		WindowMS: int(m.plan.window.Milliseconds()), Rates: windows.RatesOf(counts, m.plan.window),
		BelowSlowShare: rounded(windows.ShareBelow(counts, m.plan.window, result.SlowPerS), 4),
		MeanOfP50:      rounded(callers*sample.Median(m.figures(meanOfP50)), 3),
	}
	s.BelowFifthShare = rounded(windows.ShareBelow(counts, m.plan.window, s.MostPerS/5), 4)
	if m.beside != nil {
		s.Beside, s.BesideCPUs = m.beside.name, rounded(sample.Median(m.figures(besideCPUs)), 3)
	}
	for _, count := range counts {
		s.PerSWindows = append(s.PerSWindows, windows.PerSecond(count, m.plan.window))
	}
	row.Sustained = s
}
