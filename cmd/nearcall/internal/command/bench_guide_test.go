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
	transport = regexp.MustCompile(`by (unix socket|shared memory)`)
)

// The guide shows what the command prints, but for the figures.
func TestGuideBenchmark(t *testing.T) {
	address := serveDemo(t)
	shape := func(text string) string {
		text = strings.ReplaceAll(text, address, "unix:/tmp/demo.sock")
		text = transport.ReplaceAllString(text, "by TRANSPORT")
		return strings.TrimSpace(spaces.ReplaceAllString(numbers.ReplaceAllString(text, "N"), " "))
	}
	examples := guideExamples(t, benchmarkGuide)
	if len(examples) < 4 {
		t.Fatalf("the guide has %d examples", len(examples))
	}
	for _, example := range examples {
		shell := exec.Command("bash", "-c", "exec 2>&1; "+strings.ReplaceAll(example.command, "unix:/tmp/demo.sock", address))
		shell.Env = append(os.Environ(), "PATH="+strings.TrimSuffix(binary, "/nearcall")+":"+os.Getenv("PATH"))
		out, err := shell.Output()
		must(t, err)
		if got, want := shape(string(out)), shape(example.output); got != want {
			t.Errorf("%s\nprints\n%s\nand in the guide\n%s", example.command, got, want)
		}
	}
}
