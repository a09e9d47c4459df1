package sample

import (
	"maps"
	"math"
	"slices"

	"github.com/nearcall/nearcall/internal/decades"
)

// A Distribution is every sample of many rounds, each counted and none kept twice.
// Its memory is bounded by the time that was measured: k different times take at
// least k*k/2 nanoseconds, one call after the other. The zero Distribution is empty.
type Distribution struct {
	counts map[uint64]uint64
	total  uint64
}

// Add counts the samples of a round, which are in ascending order.
func (d *Distribution) Add(sorted []uint64) {
	if d.counts == nil {
		d.counts = map[uint64]uint64{}
	}
	d.total += uint64(len(sorted))
	for begin := 0; begin < len(sorted); {
		end := begin + 1
		for end < len(sorted) && sorted[end] == sorted[begin] {
			end++
		}
		d.counts[sorted[begin]] += uint64(end - begin)
		begin = end
	}
}

// A Summary is what a distribution looks like. Times are in the samples' unit.
type Summary struct {
	Min, P50, P95, P99, P999, Max uint64 // nearest ranks: values that were measured
	Mean, StdDev                  float64
	// OutliersShare is how many of all samples, 0 to 1, are beyond the mean and three
	// standard deviations.
	OutliersShare float64
	// Lower are the smallest samples that logarithmic classes hold, Counts how many
	// each has, from the first class that is not empty to the last.
	Lower, Counts []int64
}

// outlierDeviations is from how many standard deviations on a sample is an outlier.
const outlierDeviations = 3

// Summary summarises all samples; the zero Summary where there are none.
func (d *Distribution) Summary() Summary {
	if d.total == 0 {
		return Summary{}
	}
	values := slices.Sorted(maps.Keys(d.counts))
	s := Summary{
		Min: values[0], Max: values[len(values)-1],
		P50: d.percentile(values, 0.50), P95: d.percentile(values, 0.95),
		P99: d.percentile(values, 0.99), P999: d.percentile(values, 0.999),
	}
	s.Mean, s.StdDev = d.moments(values)
	var outliers uint64
	for _, value := range values {
		if float64(value) > s.Mean+outlierDeviations*s.StdDev {
			outliers += d.counts[value]
		}
	}
	s.OutliersShare = float64(outliers) / float64(d.total)
	s.Lower, s.Counts = d.classes(values)
	return s
}

// percentile is Percentile of all samples.
func (d *Distribution) percentile(values []uint64, p float64) uint64 {
	rank := max(uint64(math.Ceil(p*float64(d.total))), 1)
	var seen uint64
	for _, value := range values {
		if seen += d.counts[value]; seen >= rank {
			return value
		}
	}
	return values[len(values)-1]
}

// moments returns the mean and the standard deviation of a sample of all calls.
func (d *Distribution) moments(values []uint64) (mean, deviation float64) {
	var sum, squares float64
	for _, value := range values {
		sum += float64(value) * float64(d.counts[value])
	}
	mean = sum / float64(d.total)
	if d.total == 1 {
		return mean, 0
	}
	for _, value := range values {
		off := float64(value) - mean
		squares += off * off * float64(d.counts[value])
	}
	return mean, math.Sqrt(squares / float64(d.total-1))
}

func (d *Distribution) classes(values []uint64) (lower, counts []int64) {
	all := decades.Bounds(values[len(values)-1])
	class := func(value uint64) int {
		at, found := slices.BinarySearch(all, int64(value))
		if !found {
			at--
		}
		return at
	}
	first := class(values[0])
	lower = all[first : class(values[len(values)-1])+1]
	counts = make([]int64, len(lower))
	for _, value := range values {
		counts[class(value)-first] += int64(d.counts[value])
	}
	return lower, counts
}
