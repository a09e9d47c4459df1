package command_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const benchmarkGuide = root + "/docs/guides/benchmark.md"

var (
	numbers   = regexp.MustCompile(`\d+(\.\d+)?`)
	spaces    = regexp.MustCompile(` +`)
	quoted    = regexp.MustCompile(`"[^"\n]*"`)
	written   = regexp.MustCompile(`wrote \S+`)
	transport = regexp.MustCompile(`by (unix socket|shared memory)`)
)

// The guide shows what the command prints, but for the figures.
func TestGuideBenchmark(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures for most of a minute")
	}
	address := serveDemo(t)
	place := strings.NewReplacer("unix:/tmp/demo.sock", address, "/tmp/nearcall-bench", t.TempDir())
	shape := func(text string) string {
		text = transport.ReplaceAllString(quoted.ReplaceAllString(text, "TEXT"), "by TRANSPORT")
		text = written.ReplaceAllString(text, "wrote FILE")
		return strings.TrimSpace(spaces.ReplaceAllString(numbers.ReplaceAllString(text, "N"), " "))
	}
	examples := guideExamples(t, benchmarkGuide)
	if len(examples) < 10 {
		t.Fatalf("the guide has %d examples", len(examples))
	}
	for _, example := range examples {
		shell := exec.Command("bash", "-c", "exec 2>&1; "+place.Replace(example.command))
		shell.Env = append(os.Environ(), "PATH="+strings.TrimSuffix(binary, "/nearcall")+":"+os.Getenv("PATH"))
		out, err := shell.Output()
		must(t, err)
		if got, want := shape(string(out)), shape(example.output); got != want {
			t.Errorf("%s\nprints\n%s\nand in the guide\n%s", example.command, got, want)
		}
	}
}
