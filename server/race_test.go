//go:build race

package server_test

const raceDetector = true
