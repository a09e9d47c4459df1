package main

import (
	"math"

	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// A measuredRow is a row with what its rounds were, or why there are none.
type measuredRow struct {
	group   string
	plan    rowPlan
	callers []*process
	rounds  []round
	all     sample.Distribution // until it is summarised
	summary sample.Summary
	failed  string
	pace    pace // that of its group
}

func (m *measuredRow) stop() {
	for _, caller := range m.callers {
		caller.stop()
	}
	m.callers = nil
}

// fail gives a row up: what was measured before is no longer comparable.
func (m *measuredRow) fail(err error) {
	callers := m.callers
	m.stop()
	m.rounds, m.all, m.summary, m.failed = nil, sample.Distribution{}, sample.Summary{}, err.Error()
	for _, caller := range callers {
		if said := caller.complaints.suffix(); said != "" {
			m.failed += said
			return // the others say the same
		}
	}
}

// keep adds a round. Its samples are counted and forgotten.
func (m *measuredRow) keep(r round) {
	m.all.Add(r.samples)
	r.samples = nil
	m.rounds = append(m.rounds, r)
}

// summarise reduces all samples, when the last round is done.
func (m *measuredRow) summarise() { m.summary, m.all = m.all.Summary(), sample.Distribution{} }

// figures returns one figure of all rounds.
func (m measuredRow) figures(of func(round) float64) []float64 {
	values := make([]float64, len(m.rounds))
	for i, r := range m.rounds {
		values[i] = of(r)
	}
	return values
}

func p50(r round) float64       { return r.p50 }
func p99(r round) float64       { return r.p99 }
func perSecond(r round) float64 { return r.perSecond }

// reduced returns the row that is reported.
func (m measuredRow) reduced() result.Row {
	row := result.Row{
		Name: m.plan.name, Group: m.group, Size: m.plan.size, Callers: m.plan.callers,
		Engine: m.plan.engine, GoMaxProcs: m.plan.goMaxProcs, Failed: m.failed,
	}
	if m.failed != "" {
		return row
	}
	m.addRounds(&row)
	m.addSummary(&row)
	m.addKernelWork(&row)
	return row
}

// addRounds adds what is told by rounds.
func (m measuredRow) addRounds(row *result.Row) {
	var calls, serverCPU, callerCPU float64
	for _, r := range m.rounds {
		calls += float64(r.calls)
		callerCPU += r.callerCPU.Seconds()
		serverCPU += r.serverCPU.Seconds()
	}
	row.MedianOfRounds = result.Percentiles{P50NS: int64(sample.Median(m.figures(p50))), P99NS: int64(sample.Median(m.figures(p99)))}
	row.PerS = math.Round(sample.Median(m.figures(perSecond)))
	row.Calls, row.Rounds = int64(calls), len(m.rounds)
	row.RoundMS, row.WarmUpMS = int(m.pace.length.Milliseconds()), int(m.pace.warmUp.Milliseconds())
	row.Transport = m.rounds[len(m.rounds)-1].transport.String()
	row.CallerCPU = new(rounded(callerCPU/calls*1e6, 2))
	row.ServerCPU = new(rounded(serverCPU/calls*1e6, 2))
	row.P50NSRounds, row.P99NSRounds = m.figures(p50), m.figures(p99)
	row.PerSRounds = m.figures(func(r round) float64 { return math.Round(r.perSecond) })
}

// addSummary adds what is told by all samples.
func (m measuredRow) addSummary(row *result.Row) {
	s := m.summary
	row.MinNS, row.MaxNS = int64(s.Min), int64(s.Max)
	row.MeanNS, row.StdDevNS = int64(math.Round(s.Mean)), int64(math.Round(s.StdDev))
	row.P50NS, row.P95NS, row.P99NS, row.P999NS = int64(s.P50), int64(s.P95), int64(s.P99), int64(s.P999)
	row.OutliersShare = rounded(s.OutliersShare, 6)
	row.Histogram = &result.Histogram{LowerNS: s.Lower, Counts: s.Counts}
}

func rounded(value float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(value*scale) / scale
}
