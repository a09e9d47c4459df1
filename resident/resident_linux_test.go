package resident_test

import (
	"fmt"
	"testing"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

func modes() []string { return []string{"pool", "serial", "concurrent"} }

// A run has the caller's arguments, environment, directory, umask and output, and its
// code is the caller's.
func TestRun(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			directory := t.TempDir()
			for range 5 {
				got, outcome := run(t, testlauncher.Launch{
					Program: path, Args: []string{"a", "b c"}, Env: []string{"WHO=me"}, Dir: directory, Umask: 0o27,
				})
				want := fmt.Sprintf("[%q,\"a\",\"b c\"] %s 27 me\n", path, directory)
				if got != want || outcome != (testlauncher.Outcome{Code: 3}) {
					t.Fatalf("%q, want %q; %+v", got, want, outcome)
				}
			}
		})
	}
}
