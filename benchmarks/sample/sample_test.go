package sample_test

import (
	"math"
	"slices"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/sample"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]uint64, 100)
	for i := range hundred {
		hundred[i] = uint64(i + 1)
	}
	for _, c := range []struct {
		sorted []uint64
		p      float64
		want   uint64
	}{
		{[]uint64{7}, 0.5, 7},
		{[]uint64{7}, 0.99, 7},
		{[]uint64{1, 2}, 0.5, 1},
		{[]uint64{1, 2, 3}, 0.5, 2},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{hundred[:60], 0.99, 60},
	} {
		if got := sample.Percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %v of %d samples is %d, want %d", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	values := []float64{9, 1, 5}
	if got := sample.Median(values); got != 5 {
		t.Errorf("median of %v is %v", values, got)
	}
	if !slices.Equal(values, []float64{9, 1, 5}) {
		t.Errorf("the values were sorted in place: %v", values)
	}
	if got := sample.Median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median of an even number of values is %v", got)
	}
	if got := sample.Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}
