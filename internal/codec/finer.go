package codec

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Package time drops digits below a nanosecond, and computes others by a float.

var errFiner = errors.New("has digits below a nanosecond")

const digits = "0123456789"

// finestDigits is how many digits a fraction of an hour has at most, in whole nanoseconds:
// an hour is 2 to the 13th nanoseconds, times an odd number.
const finestDigits = 13

// hasFinerTime reports whether a time has digits below a nanosecond.
func hasFinerTime(text string) bool {
	point := strings.IndexAny(text, ".,")
	if point < 0 {
		return false
	}
	fraction, _ := cutDigits(text[point+1:])
	return len(strings.TrimRight(fraction, "0")) > len("000000000")
}

// withoutFractions writes each fraction of a duration's text as whole nanoseconds: 1.5us as
// 1us500ns. Text that is no duration stays none.
func withoutFractions(text string) (string, error) {
	var out strings.Builder
	for {
		whole, after, found := strings.Cut(text, ".")
		out.WriteString(whole)
		if !found {
			return out.String(), nil
		}
		fraction, rest := cutDigits(after)
		if fraction != "" && strings.TrimRight(whole, digits) == whole {
			out.WriteByte('0')
		}
		end := strings.IndexAny(rest, digits+".")
		if end < 0 {
			end = len(rest)
		}
		ns, err := fractionNs(fraction, rest[:end])
		if err != nil {
			return text, err
		}
		out.WriteString(rest[:end] + strconv.FormatUint(ns, 10) + "ns")
		text = rest[end:]
	}
}

// cutDigits cuts text behind the digits that it begins with.
func cutDigits(text string) (before, after string) {
	after = strings.TrimLeft(text, digits)
	return text[:len(text)-len(after)], after
}

// fractionNs returns the nanoseconds of a fraction of a unit, of which it has these digits.
func fractionNs(fraction, unit string) (uint64, error) {
	unitNs, err := time.ParseDuration("1" + unit)
	if err != nil {
		return 0, err
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > finestDigits {
		return 0, errFiner
	}
	number, _ := strconv.ParseUint("0"+fraction, 10, 64)
	high, low := bits.Mul64(number, uint64(unitNs))
	ns, rest := bits.Div64(high, low, uint64(math.Pow10(len(fraction))))
	if rest != 0 {
		return 0, errFiner
	}
	return ns, nil
}
