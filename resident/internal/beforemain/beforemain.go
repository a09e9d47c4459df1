// Package beforemain is of the tests: it starts a program that stays when it is
// initialized, which is before package resident is, by the order of their paths.
package beforemain

import (
	"fmt"
	"os"
	"os/exec"
)

// Variable names a file that gets the process of the program; none is started without it.
const Variable = "TEST_BEFORE_MAIN"

func init() {
	path := os.Getenv(Variable)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	defer func() { _ = file.Close() }()
	command := exec.Command("sleep", "1000")
	if err := command.Start(); err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(file, command.Process.Pid)
}
