package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The vectors and the runner must be able to fail. These tests run the program
// itself, against the real server and the Go client, on vectors that say what
// is not so.

type programs struct{ runner, server, testee string }

// built are the programs of all tests, which TestMain makes and removes.
var built programs

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "nc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	built = programs{
		runner: filepath.Join(folder, "runner"),
		server: filepath.Join(folder, "testserver"),
		testee: filepath.Join(folder, "testee"),
	}
	for path, source := range map[string]string{
		built.runner: ".", built.server: "../../tests/programs/testserver", built.testee: "../testees/go",
	} {
		if out, err := exec.Command("go", "build", "-o", path, source).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", source, err, out)
			return 1
		}
	}
	return m.Run()
}

// run returns what the runner printed and whether it ended with success.
func (p programs) run(t *testing.T, arguments ...string) (string, bool) {
	t.Helper()
	arguments = append([]string{"-root", "../..", "-server", p.server, "-testee", "go=" + p.testee}, arguments...)
	out, err := exec.Command(p.runner, arguments...).CombinedOutput()
	return string(out), err == nil
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %d vectors", folder, err, len(paths))
	}
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(path), ".json")
	}
	return paths
}

func TestRightVectorsPass(t *testing.T) {
	out, ok := built.run(t, "-vectors", "testdata/right", "-known-failures", t.TempDir())
	if !ok || !strings.Contains(out, "2 passed, 0 failed") {
		t.Errorf("ended with success: %v\n%s", ok, out)
	}
}

func TestEveryWrongVectorFails(t *testing.T) {
	out, ok := built.run(t, "-vectors", "testdata/wrong", "-known-failures", t.TempDir())
	wrong := names(t, "testdata/wrong")
	if last := fmt.Sprintf("0 passed, %d failed", len(wrong)); ok || !strings.Contains(out, last) {
		t.Errorf("ended with success: %v; want %q in\n%s", ok, last, out)
	}
	for _, name := range wrong {
		if !regexp.MustCompile(`(?m)^FAIL \S+ ` + name + `: .+\n     \S.+`).MatchString(out) {
			t.Errorf("no failure of %s in\n%s", name, out)
		}
	}
}

func TestMisspeltVectorsAreRefused(t *testing.T) {
	folders, err := filepath.Glob("testdata/malformed/*")
	if err != nil || len(folders) == 0 {
		t.Fatal(err, folders)
	}
	for _, folder := range folders {
		if out, ok := built.run(t, "-vectors", folder, "-known-failures", t.TempDir()); ok {
			t.Errorf("%s is taken:\n%s", folder, out)
		}
	}
}

func TestKnownFailuresAreCheckedBothWays(t *testing.T) {
	tests := []struct{ name, vectors, list, want string }{
		{"a failure that is listed", "testdata/wrong", "accept_server_other_value # 1 + 2 is 3\n", "1 passed, 0 failed"},
		{"a success that is listed", "testdata/right", "accept_server_ping\n", "0 passed, 1 failed"},
		{"a name that is no trial", "testdata/right", "accept_server_pong\n", "is no trial"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			known := t.TempDir()
			if err := os.WriteFile(filepath.Join(known, "go-server.txt"), []byte(test.list), 0o600); err != nil {
				t.Fatal(err)
			}
			out, ok := built.run(t, "-vectors", test.vectors, "-known-failures", known, "-run", "^accept_server_(other_value|ping)$")
			if !strings.Contains(out, test.want) || ok != strings.HasSuffix(test.want, "0 failed") {
				t.Errorf("ended with success: %v; want %q in\n%s", ok, test.want, out)
			}
		})
	}
}

func TestARunThatTriesNothingFails(t *testing.T) {
	if out, ok := built.run(t, "-vectors", "testdata/right", "-known-failures", t.TempDir(), "-run", "no such vector"); ok {
		t.Errorf("taken for a success:\n%s", out)
	}
}
