package report_test

import (
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

func p50(row string) result.Figure {
	return result.Figure{Row: row, Size: 64, Figure: result.FigureP50}
}

func compared(kind string, of result.Figure, with *result.Figure, value float64, goal *result.Goal) result.Comparison {
	return result.Comparison{Kind: kind, Of: of, With: with, Value: value, Goal: goal.Judged(value)}
}

func example() *result.Result {
	b, same := p50("b"), p50("a")
	perS := result.Figure{Row: "c", Size: 64, Figure: result.FigurePerS}
	return &result.Result{
		Schema: result.Schema,
		Rows: []result.Row{
			{Name: "floor-go-socket", Size: 64, Callers: 1, P50NS: 9_876, P99NS: 20_000, PerS: 1_234_567, CallerCPU: new(4.25), ServerCPU: new(5.5)},
			{Name: "nearcall-go-socket", Size: 64, Callers: 1, Failed: "no report"},
		},
		Comparisons: []result.Comparison{
			compared(result.KindRatio, p50("a"), &b, 1.08, result.AtMost(1.15)),
			compared(result.KindRatio, result.Figure{Row: "a", Size: 64, Figure: result.FigureP99}, &same, 5.25, result.AtMost(5)),
			compared(result.KindDifference, p50("a"), &b, 1_234, result.AtMost(1500)),
			compared(result.KindAlone, p50("a"), nil, 2_500, result.Under(2500)),
			compared(result.KindAlone, perS, nil, 3_100_000, result.AtLeast(3e6)),
			compared(result.KindRatio, perS, nil, 1.2, nil),
		},
		Measures: []result.Measure{{Name: "resident", Value: 100 << 20, Unit: "bytes", Goal: result.AtMost(200 << 20).Judged(100 << 20)}},
		LeftOut:  []result.LeftOut{{Group: "half-cpu", Why: "not root"}},
	}
}

// printed is what a terminal shows of a result, with one space between columns.
func printed(t *testing.T, r *result.Result) string {
	t.Helper()
	var out strings.Builder
	if err := report.Print(&out, r); err != nil {
		t.Fatal(err)
	}
	ends := 0 // where the last column of the line before ends
	for line := range strings.Lines(out.String()) {
		at := strings.LastIndexByte(line, '|')
		if at > 0 && ends > 0 && at != ends {
			t.Errorf("columns are not aligned in\n%s", out.String())
		}
		ends = at
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// Documents show the same tables: what goals look like is tested there.
func TestPrintSaysWhatDocumentsSay(t *testing.T) {
	wantIn(t, printed(t, example()), "9.88 us", "1,234,567", "4.25 + 5.50", "100.0 MiB", "half-cpu: not root", "| nearcall-go-socket | 64 | 1 | failed: no report |",
		"| a / b, p50_ns | 64 | <= 1.15 | 1.08 | met |", "percentiles of every call, calls/s the median over rounds")
}

// A sample may be of many calls; tables of calls tell one.
func TestCallsTimedTogetherAreShownAsOne(t *testing.T) {
	r := everything()
	one, md5 := rowOf(r, "go-itself-one"), rowOf(r, "go-itself-md5")
	one.MeanNS, md5.MeanNS = 0, 0
	one.P50NS, one.P99NS, one.P999NS, one.PerS, one.CallsPerSample = 2_560, 31_000, 123_000_000, 2_000_000_000, 10_000
	md5.P50NS, md5.P99NS, md5.CallsPerSample = 12_300_000, 71_500_000, 10_000
	_, page := written(t, r)
	wantIn(t, page, "0.256 ns", "3.1 ns", "1.23 us", "7.15 us", "calls timed together")
	wantIn(t, printed(t, r), "0.256 ns | 3.1 ns | 12.3 us | 2,000,000,000")
}
