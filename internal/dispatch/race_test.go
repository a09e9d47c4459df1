//go:build race

package dispatch_test

// raceEnabled: sync.Pool drops items at random under the race detector, so
// that allocations cannot be counted.
const raceEnabled = true
