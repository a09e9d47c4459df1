package faults_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// programs are built once for all tests of the package.
type programs struct {
	server   string
	ledger   string
	once     string
	caller   string // the ledger's caller in Go
	callList string
	refuse   string
	phases   string
}

var built programs

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "nearcall-faults")
	if err == nil {
		err = processes.CloseInherited()
	}
	if err == nil {
		built, err = build(directory)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(directory)
	os.Exit(code)
}

func build(directory string) (programs, error) {
	p := programs{
		server:   filepath.Join(directory, "testserver"),
		ledger:   filepath.Join(directory, "ledger"),
		once:     filepath.Join(directory, "one_call"),
		caller:   filepath.Join(directory, "gocaller"),
		callList: filepath.Join(directory, "call_list"),
		refuse:   filepath.Join(directory, "refuse"),
		phases:   filepath.Join(directory, "phases"),
	}
	if err := processes.BuildLibrary(); err != nil {
		return p, err
	}
	return p, errors.Join(
		processes.BuildServer(p.server),
		processes.Run("go", "build", "-o", p.caller, "./gocaller"),
		processes.BuildCaller(p.ledger), processes.BuildCaller(p.once), processes.BuildCaller(p.callList), processes.BuildCaller(p.refuse), processes.BuildCaller(p.phases),
	)
}
