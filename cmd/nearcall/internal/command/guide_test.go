package command_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/status"
)

const (
	guide          = root + "/docs/guides/command.md"
	distancesGuide = root + "/docs/guides/distances.md"
)

// An example is a command of the guide and what it prints.
type example struct{ command, output string }

// guideExamples returns the indented blocks of a page that begin with "$ ".
func guideExamples(t *testing.T, page string) []example {
	t.Helper()
	text, err := os.ReadFile(page)
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
	front := startGuideFront(t)
	examples := guideExamples(t, guide)
	if len(examples) < 15 {
		t.Fatalf("the guide has %d examples", len(examples))
	}
	for _, example := range examples {
		command := strings.ReplaceAll(example.command, "unix:/tmp/demo.sock", address)
		command = strings.ReplaceAll(command, "/tmp/schema.json", filepath.Join(scratch, "schema.json"))
		command = strings.ReplaceAll(command, "127.0.0.1:8080", front)
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

// goPrograms returns the blocks of Go of a page that say which file they are.
func goPrograms(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	programs := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)```go\n// (\\S+\\.go)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		programs[block[1]] = block[2]
	}
	return programs
}

var sizes = regexp.MustCompile(`\d+\.\d MiB`)

// A library of one's own, outside the repository: what the guide says builds it, and
// Perl and Python call it.
func TestGuideLibrary(t *testing.T) {
	repository, err := filepath.Abs(root)
	must(t, err)
	shop := t.TempDir()
	must(t, os.WriteFile(filepath.Join(shop, "main.go"), []byte(goPrograms(t, distancesGuide)["main.go"]), 0o600))
	examples := guideExamples(t, distancesGuide)
	if len(examples) < 6 {
		t.Fatalf("the guide has %d examples", len(examples))
	}
	places := strings.NewReplacer("/path/to/nearcall", repository, "/home/ada/shop", shop)
	blib := filepath.Join(repository, "build/perl/blib")
	for _, example := range examples {
		shell := exec.Command("bash", "-c", places.Replace(example.command))
		shell.Dir, shell.Stderr = shop, os.Stderr
		shell.Env = append(os.Environ(), "PERL5LIB="+blib+"/lib:"+blib+"/arch",
			"PATH="+filepath.Dir(binary)+":"+filepath.Join(repository, "build/venv/bin")+":"+os.Getenv("PATH"))
		out, err := shell.Output()
		if err != nil {
			t.Fatalf("%s: %v; do `make build-perl build-python` first", example.command, err)
		}
		want := sizes.ReplaceAllString(strings.TrimSpace(places.Replace(example.output)), "SIZE")
		if got := sizes.ReplaceAllString(strings.TrimSpace(string(out)), "SIZE"); got != want {
			t.Errorf("%s\nprints\n%s\nand in the guide\n%s", example.command, got, want)
		}
	}
}

// startGuideFront runs the guide's front and the program behind it, and returns
// where the front listens.
func startGuideFront(t *testing.T) (address string) {
	t.Helper()
	program := guideFile(t, guide, "shop.pl")
	r := startReceive(t, "--max", "8", "--", "perl", program)
	configuration := guideFile(t, guide, "front.toml", "127.0.0.1:8080", "127.0.0.1:0", "unix:/tmp/shop.sock", r.address())
	front := exec.Command(binary, "front", configuration)
	log, err := front.StderrPipe()
	must(t, err)
	must(t, front.Start())
	t.Cleanup(func() {
		_ = front.Process.Kill()
		_ = front.Wait()
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, at, found := strings.Cut(lines.Text(), "msg=listening listener=tcp:127.0.0.1:0 address="); found {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return at
		}
	}
	t.Fatalf("the front does not listen: %v", lines.Err())
	return ""
}

// guideFile writes the file that a guide shows below a line "NAME:", with some of
// its words replaced.
func guideFile(t *testing.T, guide, name string, replaced ...string) (path string) {
	t.Helper()
	text, err := os.ReadFile(guide)
	must(t, err)
	_, after, found := strings.Cut(string(text), "\n"+name+":\n\n")
	if !found {
		t.Fatalf("the guide shows no %s", name)
	}
	var lines strings.Builder
	for line := range strings.Lines(after) {
		code, indented := strings.CutPrefix(line, "    ")
		if !indented && strings.TrimSpace(line) != "" {
			break
		}
		lines.WriteString(code)
	}
	path = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(strings.NewReplacer(replaced...).Replace(lines.String())), 0o600))
	return path
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
