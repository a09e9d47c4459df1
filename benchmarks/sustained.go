package main

import (
	"math"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
	"github.com/nearcall/nearcall/internal/windows"
)

// conditions are what the machine is like while calls are sustained: by the name of the group, which ends the names of
// its rows, who else has the machine.
var conditions = map[string]*company{report.Sustained: nil, report.Played: playedHost, report.Neighbour: neighbour}

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
