package main

import (
	"context"
	"slices"
)

// inTurns takes ways in turns, so often each, every second time backwards, so that none always
// follows the same other; and returns what each turn of each gave. The first turns, so many as
// are for caches and for code that never ran, do not count.
func inTurns(ctx context.Context, turns, uncounted int, ways ...func(counts bool) (float64, error)) ([][]float64, error) {
	all, order := make([][]float64, len(ways)), make([]int, len(ways))
	for i := range order {
		order[i] = i
	}
	for turn := range uncounted + turns {
		for _, i := range order {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			figure, err := ways[i](turn >= uncounted)
			if err != nil {
				return nil, err
			}
			if turn >= uncounted {
				all[i] = append(all[i], figure)
			}
		}
		slices.Reverse(order)
	}
	return all, nil
}
