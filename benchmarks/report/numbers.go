package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

func number(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func mebibytes(value float64) string { return fmt.Sprintf("%.1f MiB", value/(1<<20)) }
func kibibytes(value float64) string { return fmt.Sprintf("%.1f KiB", value/(1<<10)) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
func factor(value float64) string  { return fmt.Sprintf("%.2f", value) }

// duration writes a time in the unit that suits it, with three digits or a little more.
func duration(ns int64) string {
	switch value := float64(ns); {
	case ns > -10_000 && ns < 10_000:
		return fmt.Sprintf("%.2f us", value/1e3)
	case ns < 1_000_000:
		return fmt.Sprintf("%.1f us", value/1e3)
	case ns < 10_000_000:
		return fmt.Sprintf("%.2f ms", value/1e6)
	case ns < 1_000_000_000:
		return fmt.Sprintf("%.1f ms", value/1e6)
	default:
		return fmt.Sprintf("%.2f s", value/1e9)
	}
}

// eachOf writes the time of one call of a row, whose samples may be of many.
func eachOf(ns int64, row result.Row) string {
	if row.CallsPerSample <= 1 {
		return duration(ns)
	}
	return durationOfEach(float64(ns) / float64(row.CallsPerSample))
}

// durationOfEach writes a time that may be less than a nanosecond.
func durationOfEach(ns float64) string {
	if ns < 10 {
		return strconv.FormatFloat(ns, 'g', 3, 64) + " ns"
	}
	return duration(int64(ns))
}

// microseconds writes a time without its unit.
func microseconds(ns int64) string {
	if ns < 10_000 {
		return fmt.Sprintf("%.2f", float64(ns)/1e3)
	}
	if ns < 100_000 {
		return fmt.Sprintf("%.1f", float64(ns)/1e3)
	}
	return thousands(float64(ns) / 1e3)
}

// thousands writes a whole number with a comma before each group of three digits.
func thousands[N int | int64 | float64](value N) string {
	digits := strconv.FormatFloat(float64(value), 'f', 0, 64)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// notCounted stands for CPU that nothing could measure.
const notCounted = "not counted"

// cpu writes CPU seconds per million calls.
func cpu(seconds *float64) string {
	if seconds == nil {
		return notCounted
	}
	return factor(*seconds)
}

// sentence ends a text as one.
func sentence(text string) string { return strings.TrimRight(text, ". ") + "." }
