package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

func number(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func mebibytes(value float64) string { return fmt.Sprintf("%.1f MiB", value/(1<<20)) }

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

// durationOfEach writes the time of one of many calls, which may be less than a
// nanosecond.
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
func thousands(value float64) string {
	digits := strconv.FormatFloat(value, 'f', 0, 64)
	var out strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(digit)
	}
	return out.String()
}

// notCounted stands for CPU that nothing could measure.
const notCounted = "not counted"

// cpu writes CPU seconds per million calls.
func cpu(seconds *float64) string {
	if seconds == nil {
		return notCounted
	}
	return strconv.FormatFloat(*seconds, 'f', 2, 64)
}

// bothCPU writes those of both sides together.
func bothCPU(row result.Row) string {
	if row.CallerCPU == nil || row.ServerCPU == nil {
		return notCounted
	}
	sum := *row.CallerCPU + *row.ServerCPU
	return cpu(&sum)
}

// perCall writes how often something happens in a call.
func perCall(times *float64) string {
	if times == nil {
		return ""
	}
	return strconv.FormatFloat(*times, 'g', 3, 64)
}

// cpuOfAll writes those of each side.
func cpuOfAll(row result.Row) string {
	if row.CallerCPU == nil && row.ServerCPU == nil {
		return notCounted
	}
	return cpu(row.CallerCPU) + " + " + cpu(row.ServerCPU)
}
