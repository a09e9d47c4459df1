package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/status"
)

const guide = "../../../../docs/guides/command.md"

// An example is a command of the guide and what it prints.
type example struct{ command, output string }

// guideExamples returns the indented blocks that begin with "$ ".
func guideExamples(t *testing.T) []example {
	t.Helper()
	text, err := os.ReadFile(guide)
	must(t, err)
	var examples []example
	inside := false
	for line := range strings.Lines(string(text)) {
		line, indented := strings.CutPrefix(line, "    ")
		command, begins := strings.CutPrefix(line, "$ ")
		switch {
		case indented && begins:
			examples = append(examples, example{command: strings.TrimSpace(command)})
			inside = true
		case inside && (indented || strings.TrimSpace(line) == ""):
			examples[len(examples)-1].output += line
		default:
			inside = false
		}
	}
	return examples
}

var durations = regexp.MustCompile(`\d+(\.\d+)?(ns|µs|ms)\b`)

// comparable leaves out what differs from run to run, and blank lines at the
// end of a block.
func comparable(text, address string) string {
	text = strings.ReplaceAll(text, address, "ADDRESS")
	return strings.TrimRight(durations.ReplaceAllString(text, "TIME"), "\n ")
}

// The guide shows what the command prints.
func TestGuide(t *testing.T) {
	address := serveDemo(t)
	scratch := t.TempDir()
	examples := guideExamples(t)
	if len(examples) < 15 {
		t.Fatalf("the guide has %d examples", len(examples))
	}
	for _, example := range examples {
		command := strings.ReplaceAll(example.command, "unix:/tmp/demo.sock", address)
		command = strings.ReplaceAll(command, "/tmp/schema.json", filepath.Join(scratch, "schema.json"))
		shell := exec.Command("bash", "-c", "exec 2>&1; "+command)
		shell.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
		out, err := shell.Output()
		must(t, err)
		got, want := comparable(string(out), address), comparable(example.output, "unix:/tmp/demo.sock")
		if got != want {
			t.Errorf("%s\nprints\n%s\nand in the guide\n%s", example.command, got, want)
		}
	}
}

// The table of exit codes is that of the codes.
func TestGuideExitCodes(t *testing.T) {
	text, err := os.ReadFile(guide)
	must(t, err)
	help := nearcall(t, "help", "call").expect(t, 0).out
	for code := status.Cancelled; code <= status.Unauthenticated; code++ {
		if row := fmt.Sprintf("| %d | `%s` |\n", 64+int(code), code); !strings.Contains(string(text), row) {
			t.Errorf("the guide lacks %q", row)
		}
		if row := fmt.Sprintf("  %3d  %s\n", 64+int(code), code); !strings.Contains(help, row) {
			t.Errorf("--help lacks %q", row)
		}
	}
}
