package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	residentGuide = root + "/docs/guides/resident.md"
	// guideTimeout bounds the wait for what a resident does beside a run.
	guideTimeout = 20 * time.Second
)

// residentHome is a directory with the programs of the guide, and how to run there.
func residentHome(t *testing.T) (home string, environment []string) {
	t.Helper()
	repository, err := filepath.Abs(root)
	must(t, err)
	runtime := filepath.Dir(residentDirectory(t))
	home = t.TempDir()
	buildResident(t, repository, home)
	for _, script := range []string{"greet.pl", "greet.py", "settings.py", "report.py", "hello"} {
		must(t, os.Rename(guideFile(t, residentGuide, script), filepath.Join(home, script)))
		must(t, os.Chmod(filepath.Join(home, script), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(home, "settings.ini"), nil, 0o600))
	blib := filepath.Join(repository, "build/perl/blib")
	path := strings.Join([]string{home + "/links", home, filepath.Dir(binary), repository + "/build/bin", repository + "/build/venv/bin", os.Getenv("PATH")}, ":")
	return home, append(os.Environ(), "XDG_RUNTIME_DIR="+runtime, "PERL5LIB="+blib+"/lib:"+blib+"/arch", "PATH="+path)
}

// buildResident builds the guide's program as a module of its own, and those of the
// examples.
func buildResident(t *testing.T, repository, home string) {
	t.Helper()
	source := t.TempDir()
	must(t, os.WriteFile(filepath.Join(source, "main.go"), []byte(goPrograms(t, residentGuide)["main.go"]), 0o600))
	module := "module greet\n\ngo 1.26.0\n\nrequire github.com/nearcall/nearcall v0.0.0\n\nreplace github.com/nearcall/nearcall => " + repository + "\n"
	must(t, os.WriteFile(filepath.Join(source, "go.mod"), []byte(module), 0o600))
	sums, err := os.ReadFile(filepath.Join(repository, "go.sum"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(source, "go.sum"), sums, 0o600))
	for _, build := range [][]string{
		{"-C", source, "-mod=mod", "-o", filepath.Join(home, "greet"), "."},
		{"-C", filepath.Join(repository, "examples/resident/page"), "-o", filepath.Join(home, "page"), "."},
		{"-C", repository, "-o", filepath.Join(home, "worker"), "./examples/resident/worker"},
	} {
		if out, err := exec.Command("go", append([]string{"build"}, build...)...).CombinedOutput(); err != nil {
			t.Fatalf("go build %v: %v\n%s", build, err, out)
		}
	}
}

var changing = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|-[0-9a-f]{16}\.|\b\d+ ms|\b\d{3,}\b`)

// The guide shows what is printed, but for numbers of processes, times, and the space
// between columns.
func TestGuideResident(t *testing.T) {
	if testing.Short() {
		t.Skip("it follows a whole guide")
	}
	home, environment := residentHome(t)
	examples := guideExamples(t, residentGuide)
	if len(examples) < 18 {
		t.Fatalf("the guide has %d examples", len(examples))
	}
	run := func(command string) string {
		shell := exec.Command("bash", "-c", "exec 2>&1; "+command)
		shell.Dir, shell.Env = home, environment
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return string(out)
	}
	defer run("nearcall resident stop")
	places := strings.NewReplacer(home, "HOME", "/home/ada", "HOME", os.Getenv("XDG_RUNTIME_DIR"), "RUNTIME", "/run/user/1000", "RUNTIME")
	comparable := func(text string) string {
		text = changing.ReplaceAllString(places.Replace(text), "CHANGING")
		return regexp.MustCompile(` +`).ReplaceAllString(strings.TrimSpace(text), " ")
	}
	for _, example := range examples {
		got, want := comparable(run(example.command)), comparable(example.output)
		// What residents say of themselves follows on a run, or a change of a file.
		for deadline := time.Now().Add(guideTimeout); got != want && strings.HasPrefix(example.command, "nearcall resident") && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
			got = comparable(run(example.command))
		}
		if got != want {
			t.Errorf("%s\nprints\n%s\nand in the guide\n%s", example.command, got, want)
		}
	}
}
