package load_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/load"
)

// Percentiles are those of the sorted values, but for the width of a class.
func TestPercentiles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, count := range []int{1, 2, 3, 100, 10_000} {
		var h load.Histogram
		values := make([]time.Duration, count)
		for i := range values {
			values[i] = time.Duration(math.Exp(random.Float64() * math.Log(30e9)))
			h.Add(values[i])
		}
		slices.Sort(values)
		for _, p := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
			want := values[max(int(math.Ceil(p*float64(count))), 1)-1]
			got := h.Percentile(p)
			if got < want || float64(got) > float64(want)*1.004 {
				t.Errorf("p%v of %d values is %d, want %d", 100*p, count, got, want)
			}
		}
		if h.Min() != values[0] || h.Max() != values[count-1] || h.Count() != uint64(count) {
			t.Errorf("%d values from %v to %v", h.Count(), h.Min(), h.Max())
		}
	}
}

func TestMerge(t *testing.T) {
	var all, first, second, none load.Histogram
	for n := range 1000 {
		latency := time.Duration(n*n) * time.Nanosecond
		all.Add(latency)
		if n%3 == 0 {
			first.Add(latency)
		} else {
			second.Add(latency)
		}
	}
	second.Merge(&first)
	second.Merge(&none)
	none.Merge(&second)
	for _, merged := range []*load.Histogram{&second, &none} {
		if merged.Count() != all.Count() || merged.Mean() != all.Mean() || merged.Percentile(0.9) != all.Percentile(0.9) ||
			merged.Min() != all.Min() || merged.Max() != all.Max() {
			t.Errorf("%d values, mean %v, p90 %v", merged.Count(), merged.Mean(), merged.Percentile(0.9))
		}
	}
}

func TestEmptyHistogram(t *testing.T) {
	var h load.Histogram
	if h.Percentile(0.5) != 0 || h.Mean() != 0 || h.Count() != 0 {
		t.Errorf("%v %v", h.Percentile(0.5), h.Mean())
	}
}

// The classes of decades hold every latency, where package decades has it.
func TestDecades(t *testing.T) {
	var h load.Histogram
	for _, latency := range []time.Duration{100, 125, 126, 999, 1_000, 2_500_000} {
		h.Add(latency)
	}
	lower, counts := h.Decades()
	held := map[int64]int64{}
	for i, count := range counts {
		if count > 0 {
			held[lower[i]] = count
		}
	}
	want := map[int64]int64{100: 2, 126: 1, 794: 1, 1_000: 1, 1_995_262: 1}
	if !maps.Equal(held, want) || lower[0] != 100 {
		t.Errorf("got %v, want %v", held, want)
	}
	var none load.Histogram
	if lower, counts := none.Decades(); lower != nil || counts != nil {
		t.Errorf("of none: %v %v", lower, counts)
	}
}
