package sample_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/sample"
)

// distributionOf counts values in rounds of at most so many.
func distributionOf(values []uint64, perRound int) *sample.Distribution {
	var d sample.Distribution
	for round := range slices.Chunk(values, perRound) {
		d.Add(slices.Sorted(slices.Values(round)))
	}
	return &d
}

func TestSummaryIsThatOfAllSamples(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	values := make([]uint64, 12_345)
	for i := range values {
		values[i] = uint64(math.Pow(10, random.Float64()*7))
	}
	got := distributionOf(values, 1_000).Summary()
	slices.Sort(values)
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"min", got.Min, values[0]}, {"max", got.Max, values[len(values)-1]},
		{"p50", got.P50, sample.Percentile(values, 0.50)}, {"p99", got.P99, sample.Percentile(values, 0.99)},
		{"p95", got.P95, sample.Percentile(values, 0.95)}, {"p99.9", got.P999, sample.Percentile(values, 0.999)},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d; seed %d", c.name, c.got, c.want, seed)
		}
	}
	total := int64(0)
	for _, count := range got.Counts {
		total += count
	}
	if total != int64(len(values)) {
		t.Errorf("the classes hold %d samples of %d; seed %d", total, len(values), seed)
	}
}

func TestSummaryOfFew(t *testing.T) {
	got := distributionOf([]uint64{2, 4, 4, 4, 5, 5, 7, 9}, 3).Summary()
	if got.Mean != 5 || math.Abs(got.StdDev-math.Sqrt(32.0/7)) > 1e-12 || got.OutliersShare != 0 {
		t.Errorf("got %+v", got)
	}
	if one := distributionOf([]uint64{7}, 1).Summary(); one.StdDev != 0 || one.Mean != 7 || one.P999 != 7 {
		t.Errorf("of one sample: %+v", one)
	}
	var none sample.Distribution
	if got := none.Summary(); got.Counts != nil {
		t.Errorf("of none: %+v", got)
	}
}

func TestOutliersAreBeyondThreeDeviations(t *testing.T) {
	values := slices.Repeat([]uint64{99, 101}, 500)
	if got := distributionOf(append(values, 1_000), 100).Summary(); got.OutliersShare != 1/1001.0 {
		t.Errorf("a share of %v, want one of 1001", got.OutliersShare)
	}
}

func TestClassesAreTenADecade(t *testing.T) {
	got := distributionOf([]uint64{100, 125, 126, 1_000, 999}, 5).Summary()
	want := []int64{100, 126, 158, 200, 251, 316, 398, 501, 631, 794, 1_000}
	if !slices.Equal(got.Lower, want) {
		t.Errorf("classes begin at %v, want %v", got.Lower, want)
	}
	if counts := []int64{2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1}; !slices.Equal(got.Counts, counts) {
		t.Errorf("they hold %v, want %v", got.Counts, counts)
	}
	if got := distributionOf([]uint64{0, 1}, 2).Summary(); !slices.Equal(got.Lower, []int64{0, 1}) {
		t.Errorf("what took no time is in a class from %v", got.Lower)
	}
}

func TestPercentilesAreInOrder(t *testing.T) {
	// Rounds that differ: a median over them would put the 99th below the 95th.
	quick, slow := slices.Repeat([]uint64{10}, 1_000), slices.Repeat([]uint64{5_000}, 1_000)
	var d sample.Distribution
	for _, round := range [][]uint64{quick, quick, slow} {
		d.Add(round)
	}
	s := d.Summary()
	if order := []uint64{s.Min, s.P50, s.P95, s.P99, s.P999, s.Max}; !slices.IsSorted(order) || s.P99 != 5_000 {
		t.Errorf("got %v", order)
	}
}
