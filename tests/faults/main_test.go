package faults_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// programs are built once for all tests of the package.
type programs struct {
	server    string
	forwarder string
	ledger    string
	once      string
	caller    string // the ledger's caller in Go
	callList  string
	refuse    string
	phases    string
}

var built programs

func TestMain(m *testing.M) { os.Exit(processes.Main(m, build)) }

func build(directory string) error {
	built = programs{
		server:    filepath.Join(directory, "testserver"),
		forwarder: filepath.Join(directory, "forwarder"),
		ledger:    filepath.Join(directory, "ledger"),
		once:      filepath.Join(directory, "one_call"),
		caller:    filepath.Join(directory, "gocaller"),
		callList:  filepath.Join(directory, "call_list"),
		refuse:    filepath.Join(directory, "refuse"),
		phases:    filepath.Join(directory, "phases"),
	}
	if err := processes.BuildLibrary(); err != nil {
		return err
	}
	return errors.Join(
		processes.BuildServer(built.server),
		processes.Run("go", "build", "-o", built.caller, "./gocaller"),
		processes.Run("go", "build", "-o", built.forwarder, "./forwarder"),
		processes.BuildCaller(built.ledger), processes.BuildCaller(built.once), processes.BuildCaller(built.callList), processes.BuildCaller(built.refuse), processes.BuildCaller(built.phases),
	)
}
