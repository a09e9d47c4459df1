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
	begun     string // the ledger's caller in C with an event loop
	async     string // the same in Python
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
		begun:     filepath.Join(directory, "ledger_begun"),
		async:     filepath.Join(directory, "ledger_async"),
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
		writeAsync(built.async),
		processes.BuildCaller(built.ledger), processes.BuildCaller(built.begun), processes.BuildCaller(built.once), processes.BuildCaller(built.callList), processes.BuildCaller(built.refuse), processes.BuildCaller(built.phases),
	)
}

// writeAsync makes a program of callers/ledger_async.py that is started like the others.
func writeAsync(target string) error {
	script, err := filepath.Abs("callers/ledger_async.py")
	if err != nil {
		return err
	}
	python, err := filepath.Abs(processes.Root + "/build/venv/bin/python")
	if err != nil {
		return err
	}
	return os.WriteFile(target, []byte("#!/bin/sh\nexec '"+python+"' -W error::UserWarning '"+script+"' \"$@\"\n"), 0o755)
}
