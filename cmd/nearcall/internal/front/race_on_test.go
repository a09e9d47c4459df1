//go:build race

package front_test

// The programs are built as the test is.
const raceDetector = true
