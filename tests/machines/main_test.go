package machines_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

// programs are built once for all tests of the package.
type programs struct {
	server           string
	command          string // nearcall, which is built beforehand
	caller, goCaller string
	certificates     string
}

var built programs

func TestMain(m *testing.M) { os.Exit(processes.Main(m, build)) }

func build(folder string) error {
	root, err := filepath.Abs(processes.Root)
	if err != nil {
		return err
	}
	built = programs{
		command:      filepath.Join(root, "build/bin/nearcall"),
		server:       filepath.Join(folder, "testserver"),
		caller:       filepath.Join(folder, "ledger"),
		goCaller:     filepath.Join(folder, "gocaller"),
		certificates: filepath.Join(folder, "certificates"),
	}
	if _, err := os.Stat(built.command); err != nil {
		return fmt.Errorf("the command is missing, which make build makes: %w", err)
	}
	if err := processes.BuildLibrary(); err != nil {
		return err
	}
	return errors.Join(
		authority.Write(built.certificates),
		processes.BuildServer(built.server),
		processes.Run("go", "build", "-o", built.goCaller, "../faults/gocaller"),
		processes.BuildCallerIn("../faults/callers", built.caller),
	)
}
