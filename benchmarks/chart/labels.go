package chart

import "strconv"

// scaled writes a value in the largest of some units, each so many times the one before.
func scaled(value, times float64, units ...string) string {
	for len(units) > 1 && value >= times {
		value, units = value/times, units[1:]
	}
	return strconv.FormatFloat(value, 'g', 3, 64) + units[0]
}

// Time writes nanoseconds in the unit that suits them.
func Time(ns float64) string { return scaled(ns, 1000, " ns", " us", " ms", " s") }

// Rate writes how many there are per second.
func Rate(perSecond float64) string { return scaled(perSecond, 1000, "/s", " k/s", " M/s") }

// Bytes writes a size in binary units; a size a little below a unit is rounded to it.
func Bytes(size float64) string { return scaled(size, 1024, " B", " KiB", " MiB") }

// Seconds writes a time that is in them.
func Seconds(s float64) string { return scaled(s, 0, " s") }

// Count writes a number.
func Count(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }
