package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// A measuredRow is a row with what its rounds were, or why there are none.
type measuredRow struct {
	group   string
	plan    rowPlan
	callers []*process.Process
	rounds  []round
	all     sample.Distribution // until it is summarised
	summary sample.Summary
	failed  string
	pace    pace     // that of its group
	beside  *company // who else had the machine; nil: nobody
}

func (m *measuredRow) stop() {
	for _, caller := range m.callers {
		caller.Stop()
	}
	m.callers = nil
}

// fail gives a row up: what was measured before is no longer comparable.
func (m *measuredRow) fail(err error) {
	callers := m.callers
	m.stop()
	m.rounds, m.all, m.summary, m.failed = nil, sample.Distribution{}, sample.Summary{}, err.Error()
	for _, caller := range callers {
		if said := caller.Complaints(); said != "" {
			m.failed += said
			return // the others say the same
		}
	}
}

// keep adds a round, unless its calls went another way than the row says: then it has no
// part in the row's figures. Its samples are counted and forgotten.
func (m *measuredRow) keep(r round) error {
	for _, went := range r.transports {
		if !m.plan.allows(went) {
			return fmt.Errorf("its calls went by %s, not by %s", named(went), named(m.plan.wants))
		}
	}
	m.all.Add(r.samples)
	r.samples = nil
	m.rounds = append(m.rounds, r)
	return nil
}

// allows reports whether the calls of a row may go so.
func (p rowPlan) allows(went protocol.Transport) bool {
	return p.wants == protocol.Unknown || went == p.wants ||
		p.mayFallBack && p.wants == protocol.SharedMemory && went == protocol.Socket
}

func named(t protocol.Transport) string { return cmp.Or(t.String(), "what the caller cannot tell") }

// transport names how the calls of all rounds went.
func (m measuredRow) transport() string {
	var all []protocol.Transport
	for _, r := range m.rounds {
		all = append(all, r.transports...)
	}
	slices.Sort(all)
	var names []string
	for _, went := range slices.Compact(all) {
		if name := went.String(); name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
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

func p10(r round) float64       { return r.p10 }
func p50(r round) float64       { return r.p50 }
func p99(r round) float64       { return r.p99 }
func perSecond(r round) float64 { return r.perSecond }

// reduced returns the row that is reported.
func (m measuredRow) reduced() result.Row {
	row := result.Row{
		Name: m.plan.name, Group: m.group, Size: m.plan.size, Callers: m.plan.callers,
		Engine: m.plan.engine, GoMaxProcs: m.plan.goMaxProcs, Pinning: m.plan.pinning, Failed: m.failed,
	}
	if m.failed != "" {
		return row
	}
	m.addRounds(&row)
	m.addSummary(&row)
	m.addSustained(&row)
	m.addKernelWork(&row)
	return row
}

// addRounds adds what is told by rounds.
func (m measuredRow) addRounds(row *result.Row) {
	var calls float64
	for _, r := range m.rounds {
		calls += float64(r.calls)
	}
	row.MedianOfRounds = result.Percentiles{P50NS: int64(sample.Median(m.figures(p50))), P99NS: int64(sample.Median(m.figures(p99)))}
	row.PerS = math.Round(sample.Median(m.figures(perSecond)))
	row.Calls, row.Rounds = int64(calls), len(m.rounds)
	if perSample := m.rounds[0].perSample; perSample > 1 {
		row.CallsPerSample = int(perSample)
	}
	row.RoundMS, row.WarmUpMS = int(m.pace.length.Milliseconds()), int(m.pace.warmUp.Milliseconds())
	row.Transport = m.transport()
	row.CallerCPU = m.cpu(calls, func(r round) *time.Duration { return r.callerCPU })
	row.ServerCPU = m.cpu(calls, func(r round) *time.Duration { return r.serverCPU })
	row.P50NSRounds, row.P99NSRounds = m.figures(p50), m.figures(p99)
	row.PerSRounds = m.figures(func(r round) float64 { return math.Round(r.perSecond) })
}

// cpu returns the CPU seconds of a side per million calls; nil when a round did not
// count them.
func (m measuredRow) cpu(calls float64, of func(round) *time.Duration) *float64 {
	var sum time.Duration
	for _, r := range m.rounds {
		used := of(r)
		if used == nil {
			return nil
		}
		sum += *used
	}
	return new(rounded(sum.Seconds()/calls*1e6, 2))
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
