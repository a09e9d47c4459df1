package handoff_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// programs is the folder of what the tests start.
var programs string

func TestMain(m *testing.M) { os.Exit(processes.Main(m, build)) }

func build(folder string) error {
	programs = folder
	for _, name := range []string{"giver", "receiver"} {
		if err := processes.Run("go", "build", "-race", "-o", filepath.Join(programs, name), "./"+name); err != nil {
			return err
		}
	}
	return nil
}
