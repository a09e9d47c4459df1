//go:build race

package resident_test

const raceEnabled = true
