package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// tree makes a tree whose calls take so many ns. Its program for measuring is one that
// measures nothing: it copies what the tree given by -root has.
func tree(t *testing.T, p50NS int64) string {
	t.Helper()
	root := t.TempDir()
	programs := filepath.Join(root, "build/benchmarks")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	r := result.Result{Schema: result.Schema, Rows: []result.Row{
		{Name: "nearcall-c-shm", Size: 64, MedianOfRounds: result.Percentiles{P50NS: p50NS, P99NS: 2 * p50NS}, Calls: 1000},
		{Name: "nearcall-c-socket", Size: 64, MedianOfRounds: result.Percentiles{P50NS: 20 * p50NS, P99NS: 40 * p50NS}, Calls: 1000},
		{Name: "floor-c-socket", Size: 64, MedianOfRounds: result.Percentiles{P50NS: 10_000 / p50NS, P99NS: 1}, Calls: 1000},
	}}
	if err := r.Write(filepath.Join(root, "latest.json")); err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
while [ "$#" -gt 0 ]; do
    case "$1" in
    -root) root="$2" ;;
    -out) out="$2" ;;
    esac
    shift
done
echo "$root" >> "$0.turns"
mkdir -p "$out" && cp "$root/latest.json" "$out/"
`
	if err := os.WriteFile(filepath.Join(programs, "benchmarks"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestCompare(t *testing.T) {
	program := filepath.Join(t.TempDir(), "compare")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	base := tree(t, 500)
	for _, test := range []struct {
		headNS int64
		code   int
		text   string
	}{
		{500, 0, "geometric mean +0.0 %"},
		{400, 0, "geometric mean -20.0 %"},
		{600, 1, "geometric mean +20.0 %"},
	} {
		head, out := tree(t, test.headNS), t.TempDir()
		run := exec.Command(program, "-base", base, "-head", head, "-out", out, "-turns", "6")
		text, _ := run.CombinedOutput()
		if run.ProcessState.ExitCode() != test.code || !strings.Contains(string(text), test.text) {
			t.Errorf("%d ns: exit code %d\n%s", test.headNS, run.ProcessState.ExitCode(), text)
		}
		// Both are measured by head's program, in turns.
		turns, err := os.ReadFile(filepath.Join(head, "build/benchmarks/benchmarks.turns"))
		if err != nil {
			t.Fatal(err)
		}
		round := fmt.Sprintf("%[1]s\n%[2]s\n%[2]s\n%[1]s\n", base, head)
		if string(turns) != strings.Repeat(round, 3) {
			t.Errorf("turns were\n%s", turns)
		}
		judge := exec.Command(program, "-judge", "-out", out)
		if _ = judge.Run(); judge.ProcessState.ExitCode() != test.code {
			t.Errorf("%d ns: judged again, exit code %d", test.headNS, judge.ProcessState.ExitCode())
		}
		results, err := os.ReadFile(filepath.Join(out, "head.txt"))
		if err != nil || strings.Contains(string(results), "floor") {
			t.Errorf("%v, results are\n%s", err, results)
		}
	}
}
