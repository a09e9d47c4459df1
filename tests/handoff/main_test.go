package handoff_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// programs is the folder of what the tests start.
var programs string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "nearcall-handoff-")
	if err == nil {
		defer os.RemoveAll(folder)
		programs = folder
		err = build()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build() error {
	for _, name := range []string{"giver", "receiver"} {
		if err := processes.Run("go", "build", "-race", "-o", filepath.Join(programs, name), "./"+name); err != nil {
			return err
		}
	}
	return processes.CloseInherited()
}
