package resident_test

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// What TestMain has found or built.
var (
	root     string // of the repository
	programs string // the folder of what was built
	launcher string
)

func TestMain(m *testing.M) {
	if how := os.Getenv(variableRestriction); how != "" {
		os.Exit(restricted(how))
	}
	// What nohup, or a shell that puts this into the background, had ignored is not
	// what is tested: a signal that is caught here is at its default in what is started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(processes.Main(m, prepare))
}

func prepare(folder string) (err error) {
	programs = folder
	if root, err = filepath.Abs(processes.Root); err != nil {
		return err
	}
	launcher = filepath.Join(root, "build/bin/nearcall-run")
	if _, err := os.Stat(launcher); err != nil {
		return fmt.Errorf("%w: 'make build' makes it", err)
	}
	// The others start a process for each run, which the race detector makes slow.
	builds := [][]string{{"program-1"}, {"program-2", "-ldflags=-X main.version=2"}, {"program-race", "-race"}}
	for _, build := range builds {
		command := append([]string{"go", "build", "-o", filepath.Join(programs, build[0])}, build[1:]...)
		if err := processes.Run(append(command, "./program")...); err != nil {
			return err
		}
	}
	return nil
}
