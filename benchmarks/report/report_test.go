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

func TestPrintSaysGoalsAndWhetherTheyWereMet(t *testing.T) {
	var out strings.Builder
	if err := report.Print(&out, example()); err != nil {
		t.Fatal(err)
	}
	// The columns are as wide as their widest cell; here one space each.
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"9.88 us", "1,234,567", "4.25 5.50", "100.0 MiB", "half-cpu: not root", "nearcall-go-socket 64 1 failed: no report",
		"a / b, p50_ns 64 1.08 goal <= 1.15 met",
		"a, p99_ns / p50_ns 64 5.25 goal <= 5.00 NOT met",
		"a - b, p50_ns 64 1.23 us goal <= 1.50 us met",
		"a, p50_ns 64 2.50 us goal < 2.50 us NOT met",
		"c, per_s 64 3,100,000 calls/s goal >= 3,000,000 calls/s met",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// A sample may be of many calls.
func TestPrintSaysWhatOneCallTakes(t *testing.T) {
	var out strings.Builder
	r := &result.Result{Schema: result.Schema, Rows: []result.Row{
		{Name: "go-itself-one", P50NS: 2_560, P99NS: 31_000, P999NS: 123_000_000, PerS: 2_000_000_000, CallsPerSample: 10_000},
	}}
	if err := report.Print(&out, r); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"go-itself-one 0 0 0.256 ns 3.1 ns 12.3 us 2,000,000,000", "percentiles of every call, calls/s the median over rounds"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}
