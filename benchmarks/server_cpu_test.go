package main

import (
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/process"
)

const (
	burned      = 50 * time.Millisecond
	burnTimeout = 20 * time.Second
)

// startShell starts a shell that is ready and then does what the script says.
func startShell(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start("bash", "-c", script)
	check(t, err)
	t.Cleanup(p.Stop)
	return p
}

// awaitCPU waits until all of a process has used so much, and more.
func awaitCPU(t *testing.T, p *process.Process, least time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(burnTimeout); ; {
		used, err := cpuOf(p)
		check(t, err)
		if used >= least {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has used %v", used)
		}
	}
}

// The child burns until its standard input ends; the parent waits for it.
const burningChild = `echo ready; exec 3<&0; (while ! read -t 0 -u 3; do :; done) & wait`

func TestCPUIsThatOfAllBelow(t *testing.T) {
	awaitCPU(t, startShell(t, `exec 3<&0; echo ready; ((while ! read -t 0 -u 3; do :; done) & wait) & wait`), burned)
}

func TestCPUOfWhatHasEndedStays(t *testing.T) {
	p := startShell(t, `(for ((i = 0; i < 200000; i++)); do :; done); echo ready; read`)
	if used, err := cpuOf(p); err != nil || used < burned {
		t.Errorf("it has used %v, %v", used, err)
	}
	if own, err := processCPU(p.PID()); err != nil || own >= burned {
		t.Errorf("the shell itself has used %v, %v", own, err)
	}
}

func TestParentIsNotCountedWithItsCaller(t *testing.T) {
	p := startShell(t, burningChild)
	awaitCPU(t, p, burned)
	row := &measuredRow{plan: plan("child", smallBytes, testLibrary, byParent, nil), callers: []*process.Process{p}}
	used, err := new(scene).serverClock(row)()
	if err != nil || *used >= burned/2 {
		t.Errorf("a parent that waits has used %v, %v", *used, err)
	}
}
