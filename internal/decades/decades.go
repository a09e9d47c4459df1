// Package decades has the classes of histograms of times, which are the same in every
// result that is kept.
package decades

import "math"

// Classes is how many classes of a histogram lie between 1 and 10, 10 and 100 and so
// on; fewer below 10, for times are whole nanoseconds.
const Classes = 10

// Bounds returns where classes begin, up to the first that lies beyond most.
func Bounds(most uint64) []int64 {
	bounds := []int64{0}
	for n := 0; bounds[len(bounds)-1] <= int64(most); n++ {
		bound := int64(math.Round(math.Pow(10, float64(n)/Classes)))
		if bound > bounds[len(bounds)-1] {
			bounds = append(bounds, bound)
		}
	}
	return bounds
}
