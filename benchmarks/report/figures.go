package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// A figure is what rows say, by the name that tables have for it.
type figure struct {
	name string
	says func(result.Row) string
}

// rowFigures are all that rows say, in the order of a table of rows.
var rowFigures = []figure{
	{"bytes", func(r result.Row) string { return thousands(r.Size) }},
	{"callers", func(r result.Row) string { return thousands(r.Callers) }},
	{"p50", func(r result.Row) string { return duration(r.P50NS) + apart(r) }},
	{"p99", func(r result.Row) string { return duration(r.P99NS) }},
	{"p99.9", distributed("p99.9")},
	{"calls/s", func(r result.Row) string { return thousands(r.PerS) }},
	{"slowest window", sustained(func(s *result.Sustained) string { return thousands(s.LeastPerS) })},
	{"p10 of windows", sustained(func(s *result.Sustained) string { return thousands(s.P10PerS) })},
	{"median window", sustained(func(s *result.Sustained) string { return thousands(s.MedianPerS) })},
	{"best window", sustained(func(s *result.Sustained) string { return thousands(s.MostPerS) })},
	{"time below " + slow + "/s", sustained(func(s *result.Sustained) string { return percent(s.BelowSlowShare) })},
	{"time below a fifth of the best", sustained(func(s *result.Sustained) string { return percent(s.BelowFifthShare) })},
	{"mean / best window", ofBest},
	{"mean / p50", sustained(func(s *result.Sustained) string { return factor(s.MeanOfP50) })},
	{"beside", sustained(func(s *result.Sustained) string { return s.Beside })},
	{"CPUs of that", sustained(func(s *result.Sustained) string { return either(s.Beside != "", factor(s.BesideCPUs), "") })},
	{"CPU us, caller + server", cpuOfEach},
	{"least", distributed("least")},
	{"mean", distributed("mean")},
	{"p95", distributed("p95")},
	{"longest", distributed("longest")},
	{"deviation", distributed("deviation")},
	{"beyond mean + 3 deviations", func(r result.Row) string {
		return either(r.Histogram != nil, fmt.Sprintf("%.2f %%", 100*r.OutliersShare), "")
	}},
	{"distribution", distribution},
	{"calls", func(r result.Row) string { return whole(r.Calls) }},
	{"calls timed together", func(r result.Row) string { return whole(r.CallsPerSample) }},
	{"rounds", func(r result.Row) string { return whole(r.Rounds) }},
	{"ms a round", func(r result.Row) string { return whole(r.RoundMS) }},
	{"ms of warm-up", func(r result.Row) string { return whole(r.WarmUpMS) }},
	{"went by", func(r result.Row) string { return r.Transport }},
	{"engine", func(r result.Row) string { return r.Engine }},
	{"held to", func(r result.Row) string { return r.Pinning }},
	{"GOMAXPROCS", func(r result.Row) string { return whole(r.GoMaxProcs) }},
	{"context switches a call", func(r result.Row) string { return perCall(r.ContextSwitchesPerCall) }},
	{"soft interrupts a call", func(r result.Row) string { return perCall(r.SoftirqsPerCall) }},
}

// otherFigures are those that only some tables show.
var otherFigures = []figure{
	{"p50 of each", func(r result.Row) string { return eachOf(r.P50NS, r) + apart(r) }},
	{"p99 of each", func(r result.Row) string { return eachOf(r.P99NS, r) }},
	{"p99.9 of each", func(r result.Row) string { return eachOf(r.P999NS, r) }},
	{"rate", func(r result.Row) string { return thousands(r.PerS) + "/s" }},
	{"ns of the whole run for a call", func(r result.Row) string { return thousands(1e9 / r.PerS) }},
	{"CPU us a call", cpuOfBoth},
	{"CPUs of who else", sustained(func(s *result.Sustained) string { return factor(s.BesideCPUs) })},
	{"spread in us", spread(microseconds, "least", "mean", "longest", "p95", "deviation")},
	{"spread in ns", spread(thousands[int64], "mean", "p50", "deviation", "longest", "least")},
}

// times are the times of rows. A figure that is called "TIME in us" is such a time
// without its unit.
var times = map[string]func(result.Row) int64{
	"least": func(r result.Row) int64 { return r.MinNS }, "mean": func(r result.Row) int64 { return r.MeanNS },
	"p50": func(r result.Row) int64 { return r.P50NS }, "p95": func(r result.Row) int64 { return r.P95NS },
	"p99": func(r result.Row) int64 { return r.P99NS }, "p99.9": func(r result.Row) int64 { return r.P999NS },
	"longest": func(r result.Row) int64 { return r.MaxNS }, "deviation": func(r result.Row) int64 { return r.StdDevNS },
}

// figure returns what a name of the tables stands for.
func (r run) figure(name string) func(result.Row) string {
	switch name {
	case "calls/s over time":
		return r.meanOverTime
	case "slowest window over time":
		return r.slowestOverTime
	case "mean / floor":
		return r.ofFloor
	}
	if with, is := strings.CutPrefix(name, "p50 / "); is {
		return func(row result.Row) string { return r.ofRow(row, with) }
	}
	for _, figure := range slices.Concat(rowFigures, otherFigures) {
		if figure.name == name {
			return figure.says
		}
	}
	time, unitless := strings.CutSuffix(name, " in us")
	if of := times[time]; of != nil && unitless {
		return func(row result.Row) string { return microseconds(of(row)) }
	}
	panic("rows say nothing that is called " + name)
}

// ofRow is how many times another row's a row's median is.
func (r run) ofRow(row result.Row, with string) string {
	other, c := r.find(with)
	if c.Missing || other.P50NS == 0 {
		return ""
	}
	return factor(float64(row.P50NS) / float64(other.P50NS))
}

// either is one of two texts.
func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func whole[N int | int64](n N) string { return either(n != 0, thousands(n), "") }

// distributed is a time of rows whose samples were counted.
func distributed(time string) func(result.Row) string {
	return func(r result.Row) string { return either(r.Histogram != nil, duration(times[time](r)), "") }
}

// distribution draws how many calls took how long: a letter for each tenth of a decade,
// as high as the logarithm of its calls.
func distribution(r result.Row) string {
	if r.Histogram == nil || len(r.Histogram.Counts) == 0 {
		return ""
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	most := math.Log1p(float64(slices.Max(r.Histogram.Counts)))
	var drawn strings.Builder
	for _, count := range r.Histogram.Counts {
		if count == 0 {
			drawn.WriteRune('·')
			continue
		}
		drawn.WriteRune(levels[int(math.Log1p(float64(count))/most*float64(len(levels)-1))])
	}
	return drawn.String()
}

// spread is several times of a row, as they were published.
func spread(write func(int64) string, names ...string) func(result.Row) string {
	return func(r result.Row) string {
		var all []string
		for _, name := range names {
			all = append(all, write(times[name](r)))
		}
		return strings.Join(all, " / ")
	}
}

// sustained is a figure of rows that are counted by windows.
func sustained(says func(*result.Sustained) string) func(result.Row) string {
	return func(r result.Row) string {
		if r.Sustained == nil {
			return ""
		}
		return says(r.Sustained)
	}
}

// slow is a rate that calls through memory do not fall below while they are hot.
var slow = thousands(result.SlowPerS)

// ofBest is a row's mean rate as a share of its best window's.
func ofBest(r result.Row) string {
	if r.Sustained == nil || r.Sustained.MostPerS == 0 {
		return ""
	}
	return factor(r.PerS / r.Sustained.MostPerS)
}

func perCall(times *float64) string {
	if times == nil {
		return ""
	}
	return fmt.Sprintf("%.3g", *times)
}

func cpuOfEach(r result.Row) string {
	if r.CallerCPU == nil && r.ServerCPU == nil {
		return notCounted
	}
	return cpu(r.CallerCPU) + " + " + cpu(r.ServerCPU)
}

func cpuOfBoth(r result.Row) string {
	if r.CallerCPU == nil || r.ServerCPU == nil {
		return notCounted
	}
	return factor(*r.CallerCPU + *r.ServerCPU)
}

// apartMost is how many times the mean of a call may be its median, or the other way
// around, before tables say so: then most calls say little of what a caller gets over time.
const apartMost = 1.5

func apart(r result.Row) string {
	mean, median := float64(r.MeanNS), float64(r.P50NS)
	if mean == 0 || median == 0 || mean <= apartMost*median && median <= apartMost*mean {
		return ""
	}
	return " (mean " + eachOf(r.MeanNS, r) + ")"
}
