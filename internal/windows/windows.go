// Package windows counts calls by when they ended: what a caller gets over time.
// Percentiles of calls hide that, for a second in which few calls are made has few of
// them.
package windows

import (
	"math"
	"slices"
	"time"
)

// Length is how long windows are that nobody wants otherwise.
const Length = 250 * time.Millisecond

// A Counter counts the calls that end in each of the windows, which follow each other
// without a gap. A call that takes longer than a window leaves those before its end
// empty; one that ends at the edge of two belongs to the later.
type Counter struct {
	counts   []uint64
	calls    uint64
	lengthNS int64
	edgeNS   int64 // where the window that is counted in ends
	at       int
}

// NewCounter returns a counter of as many whole windows as a span has. Times are in
// nanoseconds of any clock, and ends are told in their order.
func NewCounter(beginNS int64, span, length time.Duration) *Counter {
	return &Counter{counts: make([]uint64, span/length), lengthNS: int64(length), edgeNS: beginNS + int64(length)}
}

// Add counts a call that has ended. What ends after the last window is in none.
func (c *Counter) Add(endNS int64) {
	c.calls++
	for endNS >= c.edgeNS {
		c.edgeNS += c.lengthNS
		c.at++
	}
	if c.at < len(c.counts) {
		c.counts[c.at]++
	}
}

// Counts returns the calls of each window.
func (c *Counter) Counts() []uint64 { return c.counts }

// Calls returns how many there were, those after the last window included.
func (c *Counter) Calls() uint64 { return c.calls }

// AddUp adds to the counts of some callers those of another one that called at the same
// time, and returns them; none are as many as the other has.
func AddUp(counts, other []uint64) []uint64 {
	if counts == nil {
		return slices.Clone(other)
	}
	for i, count := range other {
		counts[i] += count
	}
	return counts
}

// Rates are calls per second in windows: nearest ranks, that is, rates that were seen.
type Rates struct {
	LeastPerS  float64 `json:"least_per_s"`
	P10PerS    float64 `json:"p10_per_s"`
	MedianPerS float64 `json:"median_per_s"`
	MostPerS   float64 `json:"most_per_s"`
}

// RatesOf returns the rates in some windows, of which there is at least one.
func RatesOf(counts []uint64, length time.Duration) Rates {
	sorted := slices.Sorted(slices.Values(counts))
	rank := func(share float64) float64 {
		return PerSecond(sorted[max(int(math.Ceil(share*float64(len(sorted)))), 1)-1], length)
	}
	return Rates{LeastPerS: rank(0), P10PerS: rank(0.1), MedianPerS: rank(0.5), MostPerS: rank(1)}
}

// PerSecond is the rate in a window with so many calls.
func PerSecond(count uint64, length time.Duration) float64 { return float64(count) / length.Seconds() }

// ShareBelow returns the share of windows, 0 to 1, in which fewer calls were made than
// that rate has.
func ShareBelow(counts []uint64, length time.Duration, perSecond float64) float64 {
	below := 0
	for _, count := range counts {
		if PerSecond(count, length) < perSecond {
			below++
		}
	}
	return float64(below) / float64(len(counts))
}
