package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/gate"
)

// tree makes a tree whose calls take so many ns, beside 500 of any other's. Its program for
// measuring is one that measures nothing: it leaves these turns, and what it was asked for.
func tree(t *testing.T, ns float64) string {
	t.Helper()
	root := t.TempDir()
	programs := filepath.Join(root, "build/benchmarks")
	rows := []gate.Row{{Name: "nearcall-c-shm", Bytes: 64, Sets: []gate.Set{{Base: []float64{500, 500, 500}, Head: []float64{ns, ns, ns}}}}}
	if err := gate.Write(filepath.Join(programs, gate.SetName), rows); err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
echo "$@" >> "$0.asked"
while [ "$1" != -out ]; do shift; done
mkdir -p "$2" && cp "${0%/*}/` + gate.SetName + `" "$2/"
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
	base := t.TempDir()
	for _, test := range []struct {
		headNS float64
		code   int
		text   string
	}{
		{500, 0, "+0.0 %"},
		{400, 0, "-20.0 %"},
		{600, 1, "+20.0 %"},
	} {
		head, out := tree(t, test.headNS), t.TempDir()
		run := exec.Command(program, "-base", base, "-head", head, "-out", out, "-sets", "9", "-pairs", "3")
		text, _ := run.CombinedOutput()
		if run.ProcessState.ExitCode() != test.code || !strings.Contains(string(text), test.text) {
			t.Errorf("%v ns: exit code %d\n%s", test.headNS, run.ProcessState.ExitCode(), text)
		}
		// Head's program measures both.
		asked, err := os.ReadFile(filepath.Join(head, "build/benchmarks/benchmarks.asked"))
		if err != nil {
			t.Fatal(err)
		}
		once := fmt.Sprintf("-root %s -base %s -quick -rounds 3 ", head, base)
		if strings.Count(string(asked), once) != 9 {
			t.Errorf("it was asked for\n%s", asked)
		}
		judge := exec.Command(program, "-judge", "-out", out)
		if _ = judge.Run(); judge.ProcessState.ExitCode() != test.code {
			t.Errorf("%v ns: judged again, exit code %d", test.headNS, judge.ProcessState.ExitCode())
		}
	}
}
