package resident_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// built is the test program.
var built string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	directory, err := os.MkdirTemp("", "resident-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(directory) }()
	built = filepath.Join(directory, "testprogram")
	arguments := []string{"build", "-o", built}
	if raceEnabled {
		arguments = append(arguments, "-race")
	}
	command := exec.Command("go", append(arguments, "./internal/testprogram")...)
	if output, err := command.CombinedOutput(); err != nil {
		panic(string(output))
	}
	return m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program returns a program of its own in a mode, whose resident ends with the test.
func program(t *testing.T, mode string) string {
	t.Helper()
	runtime := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	path := filepath.Join(t.TempDir(), "testprogram."+mode)
	must(t, os.Link(built, path))
	t.Cleanup(func() {
		logs, _ := filepath.Glob(filepath.Join(runtime, "*", "*.log"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			t.Logf("the resident's log:\n%s", text)
		}
	})
	return path
}

// run runs a program and returns what it printed.
func run(t *testing.T, l testlauncher.Launch) (string, testlauncher.Outcome) {
	t.Helper()
	output := collect(t, &l.Files[1])
	outcome, err := l.Run()
	must(t, err)
	return output(), outcome
}

// collect makes a pipe, and returns what returns all that was written to it.
func collect(t *testing.T, end **os.File) func() string {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	*end = w
	text := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, r)
		_ = r.Close()
		text <- b.String()
	}()
	return func() string {
		_ = w.Close()
		return <-text
	}
}
