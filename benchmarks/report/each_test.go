package report_test

import (
	"strings"
	"testing"
)

// A sample may be of many calls; the tables of calls tell one.
func TestCallsTimedTogetherAreShownAsOne(t *testing.T) {
	r := everything()
	for i := range r.Rows {
		switch row := &r.Rows[i]; row.Name {
		case "go-itself-one":
			row.P50NS, row.P99NS, row.CallsPerSample = 2_560, 31_000, 10_000
		case "go-itself-md5":
			row.P50NS, row.P99NS, row.CallsPerSample = 12_300_000, 71_500_000, 10_000
		}
	}
	_, page := written(t, r)
	for _, want := range []string{"0.256 ns", "3.1 ns", "1.23 us", "7.15 us", "calls timed together"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
