package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

const delay = 20 * time.Millisecond

// A shell plays the server: it tells an address, and leaves a file when it was ended.
const server = `echo "ready there:$1"; trap 'touch "$1.ended"; exit' TERM; sleep 0.02; while :; do sleep 0.01; done`

func TestBothStartsAreTimedTogether(t *testing.T) {
	folder := t.TempDir()
	c := coldStart{size: "64", folder: folder,
		caller: []string{"sh", "-c", `[ "$1 $2 $3" = "there:` + folder + `/$EXPECTED 64 1" ] && sleep 0.02 && echo ready; cat`, "caller"},
		server: []string{"sh", "-c", server, "server", "{path}"}}
	for _, n := range []string{"1", "2"} {
		t.Setenv("EXPECTED", n)
		took, err := c.once()
		if err != nil || took < delay {
			t.Fatalf("it took %v, %v", took, err)
		}
		if _, err := os.Stat(filepath.Join(folder, n+".ended")); err != nil {
			t.Errorf("the server was not ended: %v", err)
		}
	}
}

// A round has at least one start, however long that takes.
func TestARoundHasAStart(t *testing.T) {
	c := coldStart{address: "there", size: "64", caller: []string{"sh", "-c", `sleep 0.02; echo ready; cat`}}
	report, err := c.measure(protocol.Command{Length: time.Millisecond})
	if err != nil || len(report.Samples[0]) != 1 || time.Duration(report.Samples[0][0]) < delay {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestACallerThatFailsEndsTheRun(t *testing.T) {
	c := coldStart{address: "there", size: "64", caller: []string{"sh", "-c", "echo refused"}}
	if _, err := c.once(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}
