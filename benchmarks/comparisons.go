package main

import (
	"fmt"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
	"github.com/nearcall/nearcall/benchmarks/sample"
)

// Bounds that several rows share.
const (
	// A binding's own share of a call through memory, and all of it.
	bindingNS  = 1500
	bindingMax = 2500
	// "Never worse by more than 10 %".
	throughputShare = 0.9
	latencyShare    = 1.1
	// A paced caller's spin saves one wake-up of two.
	pacedShare = 0.8
)

func figureOf(row string, size int, figure string) result.Figure {
	return result.Figure{Row: row, Size: size, Figure: figure}
}

func small(row, figure string) result.Figure { return figureOf(row, smallBytes, figure) }

func ratio(of, with result.Figure, goal *result.Goal) result.Comparison {
	return result.Comparison{Kind: result.KindRatio, Of: of, With: &with, Goal: goal}
}

func difference(of, with result.Figure, goal *result.Goal) result.Comparison {
	return result.Comparison{Kind: result.KindDifference, Of: of, With: &with, Goal: goal}
}

func alone(of result.Figure, goal *result.Goal) result.Comparison {
	return result.Comparison{Kind: result.KindAlone, Of: of, Goal: goal}
}

// comparisons are the goals, and what helps to read them. Their values are still
// to be computed.
func comparisons() []result.Comparison {
	var all []result.Comparison
	all = append(all, ofSockets()...)
	all = append(all, ofMemory()...)
	all = append(all, ofLibraries()...)
	all = append(all, ofHandoffs()...)
	all = append(all, ofCommands()...)
	all = append(all, ofSizes()...)
	all = append(all, ofPeers()...)
	all = append(all, ofSustained()...)
	for _, count := range []int{1, 2, 4, 16, 64} {
		all = append(all, never10PercentWorse(report.ProcessesSuffix(count), result.FigureP99)...)
	}
	for _, period := range []string{"100us", "1ms", "10ms"} {
		suffix := "-paced-" + period
		all = append(all,
			ratio(small("nearcall-c-shm"+suffix, result.FigureP50), small("nearcall-c-socket"+suffix, result.FigureP50), result.AtMost(pacedShare)),
			ratio(small("nearcall-c-socket"+suffix, result.FigureP50), small("floor-go-socket"+suffix, result.FigureP50), nil))
	}
	all = append(all, never10PercentWorse("one-cpu", result.FigureP50)...)
	return append(all, never10PercentWorse("half-cpu", result.FigureP50)...)
}

func ofSockets() []result.Comparison {
	raw := small("nearcall-c-socket", result.FigureP50)
	typed := figureOf("nearcall-c-socket-typed", typedBytes, result.FigureP50)
	return []result.Comparison{
		ratio(raw, small("floor-go-socket", result.FigureP50), result.AtMost(1.15)),
		ratio(typed, raw, result.AtMost(1.10)),
		ratio(figureOf("nearcall-perl-socket-typed", typedBytes, result.FigureP50), typed, result.AtMost(1.15)),
		ratio(figureOf("nearcall-python-socket-typed", typedBytes, result.FigureP50), typed, result.AtMost(1.15)),
		ratio(small("nearcall-perl-socket", result.FigureP50), raw, nil),
		ratio(small("nearcall-python-socket", result.FigureP50), raw, nil),
		ratio(small("nearcall-go-64-shared", result.FigurePerS), small("floor-go-64-connections", result.FigurePerS), result.AtLeast(1.5)),
		ratio(small("nearcall-go-64-shared-shm", result.FigurePerS), small("nearcall-go-64-shared", result.FigurePerS), nil),
	}
}

func ofMemory() []result.Comparison {
	raw := small("nearcall-c-shm", result.FigureP50)
	typed := figureOf("nearcall-c-shm-typed", typedBytes, result.FigureP50)
	floor := small("floor-c-spin", result.FigureP50)
	all := []result.Comparison{
		ratio(raw, floor, result.AtMost(1.6)),
		ratio(small("floor-go-socket", result.FigureP50), raw, result.AtLeast(15)),
		ratio(typed, floor, result.AtMost(2)),
		ratio(small("nearcall-c-shm", result.FigureP99), raw, result.AtMost(5)),
	}
	for _, language := range []string{"perl", "python"} {
		ofRaw := small("nearcall-"+language+"-shm", result.FigureP50)
		ofTyped := figureOf("nearcall-"+language+"-shm-typed", typedBytes, result.FigureP50)
		all = append(all,
			difference(ofRaw, raw, result.AtMost(bindingNS)), alone(ofRaw, result.Under(bindingMax)),
			difference(ofTyped, typed, result.AtMost(bindingNS)), alone(ofTyped, result.Under(bindingMax)))
	}
	return append(all,
		ratio(small("nearcall-go-shm", result.FigureP50), raw, nil),
		alone(small("nearcall-c-shm-pipelined", result.FigurePerS), result.AtLeast(3e6)),
		ratio(small("nearcall-c-shm-pipelined", result.FigurePerS), small("nearcall-c-socket-pipelined", result.FigurePerS), nil))
}

func ofLibraries() []result.Comparison {
	raw := small("nearcall-c-embed", result.FigureP50)
	inProcess := figureOf("nearcall-c-embed-goroutine", 0, result.FigureP50)
	return []result.Comparison{
		ratio(raw, figureOf("floor-c-cgo", 0, result.FigureP50), result.AtMost(2.5)),
		alone(figureOf("nearcall-perl-embed-typed", typedBytes, result.FigureP50), result.AtMost(600)),
		alone(small("nearcall-perl-embed-child", result.FigureP50), result.Under(bindingMax)),
		alone(figureOf("nearcall-perl-embed-child-typed", typedBytes, result.FigureP50), result.Under(bindingMax)),
		alone(figureOf("nearcall-c-embed-child-goroutine", 0, result.FigureP50), nil),
		alone(inProcess, nil),
	}
}

// ofHandoffs are what a connection costs with its first request, and what each further
// request costs: a front is there for the first alone, and a proxy for all.
func ofHandoffs() []result.Comparison {
	of := func(row string) result.Figure { return figureOf(row, 0, result.FigureP50) }
	handed := of("web-handed-over")
	all := []result.Comparison{
		ratio(handed, of("web-direct"), result.AtMost(1.4)),
		ratio(of("floor-web-handed-over"), of("floor-web-direct"), nil),
		ratio(of("web-nginx-proxy"), handed, nil),
		ratio(of("web-nginx-proxy-plain"), handed, nil),
	}
	for _, further := range []string{"-second", "-kept"} {
		all = append(all,
			ratio(of("web-handed-over"+further), of("web-direct"+further), nil),
			ratio(of("web-nginx-proxy"+further), of("web-handed-over"+further), result.AtLeast(1)))
	}
	return all
}

func ofCommands() []result.Comparison {
	of := func(row string) result.Figure { return figureOf(row, 0, result.FigureP50) }
	all := []result.Comparison{
		ratio(of("run-go-resident"), of("run-true"), result.AtMost(1.6)),
		ratio(of("run-go"), of("run-go-resident"), result.AtLeast(2.5)),
		ratio(of("run-go"), of("run-go-resident-pool"), nil),
		ratio(of("run-go-paced"), of("run-go-resident-pool-paced"), nil),
	}
	for _, way := range []string{"shm", "socket"} {
		all = append(all, ratio(small("resident-c-"+way, result.FigureP50), small("nearcall-c-"+way+"-resident", result.FigureP50), result.AtMost(latencyShare)))
	}
	for _, heavy := range []struct {
		name  string
		times float64
	}{{"cobra", 5}, {"perl", 10}, {"python", 10}} {
		all = append(all, ratio(of("run-"+heavy.name), of("run-"+heavy.name+"-resident"), result.AtLeast(heavy.times)))
	}
	return all
}

func ofSizes() []result.Comparison {
	var all []result.Comparison
	for _, size := range largeBytes {
		var goal *result.Goal
		if size == mebibyte {
			goal = result.AtMost(4)
		}
		shared := figureOf("nearcall-c-shm", size, result.FigureP50)
		socket := figureOf("nearcall-c-socket", size, result.FigureP50)
		all = append(all,
			ratio(socket, figureOf("floor-go-socket", size, result.FigureP50), nil),
			ratio(shared, figureOf("memcpy", size, result.FigureP50), goal),
			ratio(shared, socket, nil))
	}
	return all
}

// never10PercentWorse compares memory with the socket, in throughput and in one
// figure of time.
func never10PercentWorse(suffix, figure string) []result.Comparison {
	shared, socket := "nearcall-c-shm-"+suffix, "nearcall-c-socket-"+suffix
	return []result.Comparison{
		ratio(small(shared, result.FigurePerS), small(socket, result.FigurePerS), result.AtLeast(throughputShare)),
		ratio(small(shared, figure), small(socket, figure), result.AtMost(latencyShare)),
	}
}

// compareAll computes the comparisons whose rows were measured, or have failed.
func compareAll(all []result.Comparison, rows []measuredRow) []result.Comparison {
	var done []result.Comparison
	for _, comparison := range all {
		if computed, err := compared(comparison, rows); err == nil {
			done = append(done, computed)
		}
	}
	return done
}

// compared computes and judges a comparison: of each round, then the median of these.
// A row that failed leaves it without a value, and its goal not met.
func compared(c result.Comparison, rows []measuredRow) (result.Comparison, error) {
	var figures [][]float64
	for _, figure := range []*result.Figure{&c.Of, c.With} {
		if figure == nil {
			continue
		}
		row, err := find(rows, figure.Row, figure.Size)
		if err != nil {
			return c, err
		}
		if row.failed != "" {
			c.NotMeasured = figure.Row + " failed: " + row.failed
			return c, nil
		}
		figures = append(figures, row.figures(figureIn[figure.Figure]))
	}
	values := figures[0]
	if c.With != nil {
		combine := sample.Ratios
		if c.Kind == result.KindDifference {
			combine = sample.Differences
		}
		// A run that is ended leaves some rows a round more than others.
		both := min(len(values), len(figures[1]))
		values = combine(values[:both], figures[1][:both])
	}
	c.Value = rounded(sample.Median(values), 3)
	c.Goal = c.Goal.Judged(c.Value)
	return c, nil
}

// figureIn is where a round has its figures.
var figureIn = map[string]func(round) float64{
	result.FigureP50: p50, result.FigureP99: p99, result.FigurePerS: perSecond,
	result.FigureOfMost: ofMost, result.FigureBelow: shareBelow, result.FigureMeanOfP50: meanOfP50, result.FigureBesideCPUs: besideCPUs,
}

func find(rows []measuredRow, name string, size int) (measuredRow, error) {
	for _, row := range rows {
		if row.plan.name == name && row.plan.size == size {
			return row, nil
		}
	}
	return measuredRow{}, fmt.Errorf("the row %s of %d bytes was not measured", name, size)
}
