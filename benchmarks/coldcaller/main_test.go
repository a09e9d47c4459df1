package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/protocol"
)

const delay = 20 * time.Millisecond

// A shell plays the server: it tells an address, and leaves a file when it was ended.
const server = `trap 'touch "$1.ended"; exit' TERM; echo "ready there:$1"; sleep 0.02; while :; do sleep 0.01; done`

func TestBothStartsAreTimedTogether(t *testing.T) {
	folder := t.TempDir()
	c := coldStart{folder: folder,
		caller: []string{"sh", "-c", `[ "$1 $2" = "there:` + folder + `/$EXPECTED 64" ] && sleep 0.02 && echo ready; cat`, "caller", "{address}", "64"},
		server: []string{"sh", "-c", server, "server", "{path}"}}
	for _, n := range []string{"1", "2"} {
		t.Setenv("EXPECTED", n)
		took, _, err := c.once()
		if err != nil || time.Duration(took) < delay {
			t.Fatalf("it took %v ns, %v", took, err)
		}
		if _, err := os.Stat(filepath.Join(folder, n+".ended")); err != nil {
			t.Errorf("the server was not ended: %v", err)
		}
	}
}

// A round has at least one start, however long that takes.
func TestARoundHasAStart(t *testing.T) {
	c := coldStart{address: "there", caller: []string{"sh", "-c", `sleep 0.02; echo ready; cat`}}
	report, err := c.measure(protocol.Command{Length: time.Millisecond})
	if err != nil || len(report.Samples[0]) != 1 || time.Duration(report.Samples[0][0]) < delay {
		t.Errorf("%+v, %v", report, err)
	}
}

// How long what was started takes to end is no part of the rate.
func TestTheTimeIsThatOfTheStarts(t *testing.T) {
	c := coldStart{address: "there", caller: []string{"sh", "-c", `trap "" TERM; echo ready; cat; sleep 0.05`}}
	report, err := c.measure(protocol.Command{Length: 2 * delay})
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, sample := range report.Samples[0] {
		sum += time.Duration(sample)
	}
	if report.Elapsed != sum {
		t.Errorf("%v for samples of %v", report.Elapsed, sum)
	}
}

// A caller that starts its server is told where.
func TestAHostIsGivenAPlace(t *testing.T) {
	folder := t.TempDir()
	c := coldStart{address: "nowhere", hosts: true, folder: folder,
		caller: []string{"sh", "-c", `[ "$1" = "start:` + folder + `/1" ] && echo ready; cat`, "caller", "{address}"}}
	if _, _, err := c.once(); err != nil {
		t.Error(err)
	}
}

// asColdcaller makes this program the coldcaller.
const asColdcaller = "NEARCALL_TEST_COLDCALLER"

func TestMain(m *testing.M) {
	if os.Getenv(asColdcaller) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestNothingIsLeftBehind(t *testing.T) {
	folder := t.TempDir()
	command := exec.Command(os.Args[0], "caller", "there", "64", "sh", "-c", "echo ready; cat")
	command.Env = append(os.Environ(), asColdcaller+"=1", "TMPDIR="+folder)
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Errorf("it said %q, %v", line, err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestACallerThatFailsEndsTheRun(t *testing.T) {
	c := coldStart{address: "there", caller: []string{"sh", "-c", "echo refused"}}
	if _, _, err := c.once(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}
