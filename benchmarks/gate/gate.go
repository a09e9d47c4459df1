// Package gate judges whether calls have become slower from one revision to
// another, by benchstat's statistics.
package gate

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

const (
	// WorseMax is what the geometric mean may become worse by: 5 %.
	WorseMax = 1.05
	// Unit is what is judged; results have others beside it.
	Unit = "sec/op"
	// roundsMin is how many runs of each side it takes before any difference can be
	// significant.
	roundsMin = 4
)

// Times are seconds by benchmark, one for each run, in the order of the runs.
type Times map[string][]float64

// Read reads results in the format of Go's benchmarks.
func Read(from io.Reader, name string) (Times, error) {
	times := Times{}
	reader := benchfmt.NewReader(from, name)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			if value, found := record.Value(Unit); found {
				key := string(record.Name.Full())
				times[key] = append(times[key], value)
			}
		case *benchfmt.SyntaxError:
			return nil, record
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("%s has no result", name)
	}
	return times, nil
}

// A Verdict is how head stands to base.
type Verdict struct {
	// Ratio is head's geometric mean, over all benchmarks that both have, divided by
	// base's: of the medians of each, as benchstat prints it.
	Ratio float64
	// P is how probable a difference at least so large is between runs of the same
	// program: the Mann-Whitney U test on the geometric means of the single runs.
	P, Alpha float64
	Runs     int
	// LeftOut are benchmarks that only one side has.
	LeftOut []string
}

// Worse reports whether head fails: slower by more than WorseMax, and not by chance.
func (v Verdict) Worse() bool { return v.Ratio > WorseMax && v.P < v.Alpha }

// String says it in a sentence.
func (v Verdict) String() string {
	significance := "significant"
	if v.P >= v.Alpha {
		significance = "not significant"
	}
	return fmt.Sprintf("geometric mean %+.1f %% (p=%.3f, n=%d, %s); more than %+.0f %% fails when it is significant",
		100*(v.Ratio-1), v.P, v.Runs, significance, 100*(WorseMax-1))
}

// Judge compares two sides that ran alternately, equally often.
func Judge(base, head Times) (Verdict, error) {
	names, leftOut := common(base, head)
	if len(names) == 0 {
		return Verdict{}, errors.New("no benchmark was measured on both sides")
	}
	runs, err := runsOf(names, base, head)
	if err != nil {
		return Verdict{}, err
	}
	compared := benchmath.AssumeNothing.Compare(sampleOf(base, names, runs), sampleOf(head, names, runs))
	var logs float64
	for _, name := range names {
		logs += math.Log(median(head[name]) / median(base[name]))
	}
	return Verdict{
		Ratio: math.Exp(logs / float64(len(names))),
		P:     compared.P, Alpha: compared.Alpha,
		Runs: runs, LeftOut: leftOut,
	}, nil
}

// common returns what both have, and what only one has.
func common(base, head Times) (names, others []string) {
	all := maps.Clone(base)
	maps.Copy(all, head)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if base[name] != nil && head[name] != nil {
			names = append(names, name)
		} else {
			others = append(others, name)
		}
	}
	return names, others
}

// runsOf returns how often all ran; a benchmark that did less often than another has
// no part in some means, and would shift them.
func runsOf(names []string, sides ...Times) (int, error) {
	runs := len(sides[0][names[0]])
	for _, side := range sides {
		for _, name := range names {
			if len(side[name]) != runs {
				return 0, fmt.Errorf("%s ran %d times, and %s %d times", names[0], runs, name, len(side[name]))
			}
		}
	}
	if runs < roundsMin {
		return 0, fmt.Errorf("%d runs: at least %d of each side can tell a difference from chance", runs, roundsMin)
	}
	return runs, nil
}

// sampleOf are the geometric means over all benchmarks, one for each run.
func sampleOf(times Times, names []string, runs int) *benchmath.Sample {
	means := make([]float64, runs)
	for run := range means {
		var logs float64
		for _, name := range names {
			logs += math.Log(times[name][run])
		}
		means[run] = math.Exp(logs / float64(len(names)))
	}
	return benchmath.NewSample(means, &benchmath.DefaultThresholds)
}

func median(values []float64) float64 {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds), 0.95).Center
}
