package load

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/nearcall/nearcall/internal/decades"
)

// A class of a histogram is exact below 2*subClasses nanoseconds, and spans less than
// 0.4 % of its values above.
const (
	subClassBits = 8
	subClasses   = 1 << subClassBits
)

// A Histogram counts every latency it is given; it grows with the slowest, not with
// their number. The zero value is empty.
type Histogram struct {
	counts   []uint64
	count    uint64
	sum      time.Duration
	min, max time.Duration
}

// Add counts one latency.
func (h *Histogram) Add(latency time.Duration) {
	latency = max(latency, 0)
	class := classOf(uint64(latency))
	if class >= len(h.counts) {
		h.counts = append(h.counts, make([]uint64, class+1-len(h.counts))...)
	}
	h.counts[class]++
	if h.count == 0 || latency < h.min {
		h.min = latency
	}
	h.max = max(h.max, latency)
	h.count++
	h.sum += latency
}

// classOf returns the class of a value: for one of n bits more than subClassBits,
// the nth row of subClasses, and its highest bits within.
func classOf(value uint64) int {
	shift := max(0, bits.Len64(value)-subClassBits-1)
	return shift<<subClassBits + int(value>>shift)
}

// highestOf returns the largest value of a class.
func highestOf(class int) uint64 {
	shift := max(0, class>>subClassBits-1)
	return uint64(class-shift<<subClassBits+1)<<shift - 1
}

// Merge adds all that another has counted.
func (h *Histogram) Merge(other *Histogram) {
	if other.count == 0 {
		return
	}
	if missing := len(other.counts) - len(h.counts); missing > 0 {
		h.counts = append(h.counts, make([]uint64, missing)...)
	}
	for class, count := range other.counts {
		h.counts[class] += count
	}
	if h.count == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.count += other.count
	h.sum += other.sum
}

// Count returns how many latencies were added.
func (h *Histogram) Count() uint64 { return h.count }

// Min returns the smallest of them, exactly; 0 for none.
func (h *Histogram) Min() time.Duration { return h.min }

// Max returns the largest of them, exactly; 0 for none.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns their arithmetic mean, exactly; 0 for none.
func (h *Histogram) Mean() time.Duration { return h.sum / time.Duration(max(h.count, 1)) }

// Percentile returns what at least the share p (0 to 1) of all latencies does not
// exceed, at most 0.4 % too high; 0 for none.
func (h *Histogram) Percentile(p float64) time.Duration {
	rank := max(uint64(math.Ceil(p*float64(h.count))), 1)
	var seen uint64
	for class, count := range h.counts {
		seen += count
		if seen >= rank {
			return min(time.Duration(highestOf(class)), h.max)
		}
	}
	return h.max
}

// Decades returns how many latencies are in each class of package decades, from the
// first that is not empty to the last, and where these classes begin. Above 511 ns a
// latency up to 0.4 % below the next class may count there.
func (h *Histogram) Decades() (lower, counts []int64) {
	if h.count == 0 {
		return nil, nil
	}
	all := decades.Bounds(uint64(h.max))
	classIn := func(value time.Duration) int {
		at, found := slices.BinarySearch(all, int64(value))
		if !found {
			at--
		}
		return at
	}
	first := classIn(h.min)
	lower = all[first : classIn(h.max)+1]
	counts = make([]int64, len(lower))
	for class, count := range h.counts {
		if count > 0 {
			counts[classIn(min(time.Duration(highestOf(class)), h.max))-first] += int64(count)
		}
	}
	return lower, counts
}
