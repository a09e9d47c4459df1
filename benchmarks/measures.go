package main

import "github.com/nearcall/nearcall/benchmarks/result"

func measured(name, unit string, value float64) result.Measure {
	return result.Measure{Name: name, Value: value, Unit: unit}
}

// atMost is a measure with a goal.
func atMost(bound float64, name, unit string, value float64) result.Measure {
	return result.Measure{Name: name, Value: value, Unit: unit, Goal: result.AtMost(bound).Judged(value)}
}
