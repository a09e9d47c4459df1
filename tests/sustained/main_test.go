package sustained_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// built are the programs that the tests start.
var built struct{ server, caller string }

func TestMain(m *testing.M) { os.Exit(processes.Main(m, build)) }

func build(folder string) error {
	built.server, built.caller = filepath.Join(folder, "testserver"), filepath.Join(folder, "steady")
	if err := processes.BuildLibrary(); err != nil {
		return err
	}
	return errors.Join(processes.BuildServer(built.server), processes.BuildCaller(built.caller))
}
