package cputime_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/cputime"
)

// A process that computes is seen to, by another.
func TestOf(t *testing.T) {
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		busy.Process.Kill()
		busy.Wait()
	}()
	const enough = 20 * time.Millisecond
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		used, err := cputime.Of(busy.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if used >= enough {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has used %v", used)
		}
	}
	if own, err := cputime.Of(os.Getpid()); err != nil || own <= 0 {
		t.Fatalf("this process has used %v, %v", own, err)
	}
}

func TestOfNobody(t *testing.T) {
	if _, err := cputime.Of(1 << 28); err == nil {
		t.Fatal("a process that is not there has used CPU")
	}
}
