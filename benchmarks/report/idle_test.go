package report_test

import (
	"cmp"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/report"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// idleResult is one with the figures of idle connections; the event loop's server begins
// with more bytes.
func idleResult(moreBytes float64) *result.Result {
	r := &result.Result{Schema: result.Schema}
	for _, count := range report.IdleCounts {
		for engine, of := range map[string]struct{ before, each float64 }{
			report.IdleGoroutines: {1 << 20, 10 << 10}, report.IdleEventLoop: {1<<20 + moreBytes, 2 << 10},
		} {
			r.Measures = append(r.Measures,
				result.Measure{Name: report.IdleEmpty(engine, count), Value: of.before, Unit: "bytes"},
				result.Measure{Name: report.IdleResident(engine, count), Value: of.before + of.each*float64(count), Unit: "bytes"})
			r.Rows = append(r.Rows, result.Row{Name: report.BesideIdle(engine, count), Size: 64, P50NS: 9_000, P99NS: 20_000})
		}
	}
	r.Rows = append(r.Rows,
		result.Row{Name: "persistent-unix-goroutine-1", PerS: 100_000}, result.Row{Name: "persistent-unix-eventloop-1", PerS: 50_000})
	return r
}

func TestEventLoopGuide(t *testing.T) {
	wantIn(t, shown(t, report.EventLoopGuide, idleResult(80<<10)), "| 1,000 | 10.0 KiB | 2.0 KiB | 9.00 us (20.0 us) | 9.00 us (20.0 us) |",
		"less memory from 10 idle connections on", "GOMAXPROCS=1 50,000 calls a second instead of 100,000")
	wantIn(t, shown(t, report.EventLoopGuide, idleResult(0)), "less memory from the first connection on")
	wantIn(t, shown(t, report.EventLoopGuide, &result.Result{}), "| 10,000 | not measured | not measured | not measured | not measured |")
}

// Memory is one thing, and time another.
func TestEventLoopGuideSaysWhenCallsAreFaster(t *testing.T) {
	const lower, never = "**A call beside idle connections had the lower p50 with the event loop ", "**Calls were never faster with the event loop:**"
	for _, test := range []struct {
		p50, p99 map[int]int64 // of the event loop, beside 9,000 and 20,000
		want     string
	}{
		{nil, nil, never},
		{map[int]int64{10_000: 8_999}, map[int]int64{100: 21_000}, lower + "beside 10,000 of them, and the lower p99 at no number of them.**"},
		{map[int]int64{100: 1, 1_000: 1, 10_000: 1}, map[int]int64{1_000: 1, 10_000: 19_999}, lower + "beside 100 and 1,000 and 10,000 of them, and the lower p99 beside 1,000 and 10,000 of them.**"},
	} {
		r := idleResult(0)
		for i := range r.Rows {
			for _, count := range report.IdleCounts {
				if row := &r.Rows[i]; row.Name == report.BesideIdle(report.IdleEventLoop, count) {
					row.P50NS, row.P99NS = cmp.Or(test.p50[count], row.P50NS), cmp.Or(test.p99[count], row.P99NS)
				}
			}
		}
		wantIn(t, shown(t, report.EventLoopGuide, r), test.want)
		rowOf(r, report.BesideIdle(report.IdleGoroutines, 100)).Failed = "it died"
		wantNotIn(t, shown(t, report.EventLoopGuide, r), lower, never)
	}
}
