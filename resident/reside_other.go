//go:build !linux

package resident

import (
	"fmt"
	"os"
	"runtime"
)

func reside(Options, runFunc) int {
	fmt.Fprintf(os.Stderr, "%s: there are no resident programs on %s; start it without %s\n", os.Args[0], runtime.GOOS, argumentResident)
	return exitNotStarted
}

func argumentsWereTaken() bool { return false }

// borrowUmask is only needed in residents.
func borrowUmask(int) error { return nil }
