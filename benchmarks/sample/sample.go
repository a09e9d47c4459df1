// Package sample reduces measured times to the figures that are reported.
package sample

import (
	"math"
	"slices"
)

// Percentile returns the smallest sample that at least the share p (0 to 1) of
// all samples do not exceed: the nearest rank, never a value nobody measured.
// sorted is in ascending order and not empty.
func Percentile(sorted []uint64, p float64) uint64 {
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the middle value, or the mean of the two in the middle. It
// leaves values as they are. NaN for none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Ratios divides pairwise, so that drift of the machine, which hits both values
// of a pair alike, cancels. Both slices have the same length.
func Ratios(above, below []float64) []float64 {
	ratios := make([]float64, len(above))
	for i := range above {
		ratios[i] = above[i] / below[i]
	}
	return ratios
}

// Differences subtracts pairwise, as Ratios divides.
func Differences(of, less []float64) []float64 {
	differences := make([]float64, len(of))
	for i := range of {
		differences[i] = of[i] - less[i]
	}
	return differences
}
