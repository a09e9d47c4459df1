package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What a test waits for comes within milliseconds; a busy machine may take longer.
const patience = 30 * time.Second

// place changes to a folder with a Makefile of one target for each name, and returns a
// runner there and what it will have said.
func place(t *testing.T, recipes map[string]string) (*runner, *bytes.Buffer) {
	t.Helper()
	t.Chdir(t.TempDir())
	text := "SHELL := /bin/bash\n"
	for target, recipe := range recipes {
		text += target + ":\n\t@" + recipe + "\n"
	}
	if err := os.WriteFile("Makefile", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output := &bytes.Buffer{}
	return &runner{name: "all", folder: "kept", make: "make", lanes: 2, bound: patience, output: output}, output
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func expectSaid(t *testing.T, output *bytes.Buffer, wanted ...string) {
	t.Helper()
	for _, text := range wanted {
		if !strings.Contains(output.String(), text) {
			t.Errorf("%q is missing in\n%s", text, output)
		}
	}
}

// meet is a recipe that ends when another has come as far.
func meet(mine, other string) string {
	return fmt.Sprintf("touch %s; for i in {1..3000}; do [ -e %s ] && exit; sleep 0.01; done; exit 1", mine, other)
}

func TestPartsMeetInTwoLanes(t *testing.T) {
	r, output := place(t, map[string]string{
		"base": "touch base", "left": "[ -e base -a -n \"$$NEARCALL_BUILT\" ] && " + meet("l", "r"), "right": meet("r", "l"),
		"timed": "echo $$PPID > timed",
	})
	passed, err := r.run(context.Background(), []string{"base"}, []string{"left", "right"}, []string{"timed"})
	if !passed || err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	expectSaid(t, output, "==> base", "==> timed", "all: all 4 parts passed", "of CPU")
}

// No two of the parts that measure time run at once, nor beside others.
func TestAloneIsAlone(t *testing.T) {
	busy := "mkdir busy || exit 1; sleep 0.05; rmdir busy"
	r, output := place(t, map[string]string{"one": busy, "two": busy, "three": busy})
	passed, err := r.run(context.Background(), nil, []string{"one"}, []string{"two", "three"})
	if !passed || err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

// What failed is shown whole when it fails, and its best lines in the end, and kept.
func TestFailuresAreShown(t *testing.T) {
	r, output := place(t, map[string]string{
		"good": "echo unremarkable",
		"bad":  "echo something before; echo 'not ok 3 - the third'; seq 30; exit 3",
	})
	passed, err := r.run(context.Background(), nil, []string{"bad", "good"}, nil)
	if passed || err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	expectSaid(t, output, "something before", "good               passed", "bad                FAILED",
		"all: what bad said:\nnot ok 3 - the third\n1\n", "the end of bad:\n25\n", "run `make bad` alone")
	if strings.Contains(output.String(), "unremarkable") {
		t.Errorf("what a part that passed has said is shown:\n%s", output)
	}
	kept, err := os.ReadFile(filepath.Join("kept", "all.failed"))
	if err != nil || !bytes.Contains(kept, []byte("not ok 3")) {
		t.Errorf("kept is %q, %v", kept, err)
	}
}

// Without what all need nothing else is made.
func TestFirstEndsAll(t *testing.T) {
	r, output := place(t, map[string]string{"base": "exit 1", "other": "touch made"})
	if passed, _ := r.run(context.Background(), []string{"base"}, []string{"other"}, nil); passed || exists("made") {
		t.Errorf("passed %v, made %v:\n%s", passed, exists("made"), output)
	}
	expectSaid(t, output, "all: FAILED", "base")
}

// What does not end is ended, with the name of what hung, also when it has left the part's
// group and ignores what it is told.
func TestHungPartIsEnded(t *testing.T) {
	r, output := place(t, map[string]string{
		"stuck": "setsid bash -c 'trap \"\" TERM; echo $$$$ > pid; while :; do sleep 1000; done' & wait",
	})
	r.bound = 2 * time.Second
	if passed, _ := r.run(context.Background(), nil, []string{"stuck"}, nil); passed {
		t.Error("it passed")
	}
	expectSaid(t, output, "stuck              HUNG", "not over after 2s", "sleep 1000", "left running, and killed")
	expectGone(t, "pid")
}

// A signal ends all that runs, and nothing more is begun.
func TestSignalEndsAll(t *testing.T) {
	r, output := place(t, map[string]string{"long": "echo $$$$ > pid; sleep 1000", "later": "touch later"})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if passed, _ := r.run(ctx, nil, []string{"long"}, []string{"later"}); passed {
			t.Error("it passed")
		}
	})
	waitFor(t, "the part to run", func() bool { text, _ := os.ReadFile("pid"); return bytes.HasSuffix(text, []byte("\n")) })
	cancel()
	running.Wait()
	expectSaid(t, output, "long               ended", "ended by a signal")
	if exists("later") {
		t.Error("a part was begun after the signal")
	}
	expectGone(t, "pid")
}

// expectGone expects the end of the process of which a file has the number.
func expectGone(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of a process", func() bool {
		p, err := readProcess(fmt.Sprintf("/proc/%d", pid))
		return syscall.Kill(pid, 0) != nil || err != nil || p.state == "Z"
	})
}
