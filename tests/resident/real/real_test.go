// Package real_test runs programs that people use, as residents and plainly, by 'nearcall
// resident check'. Most of them know nothing of residents.
package real_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

const root = "../../.."

// What TestMain has found or built.
var (
	repository string
	built      string // a folder: Go programs, and the Python module
	python     string // the programs of requirements.txt
)

// all are run where the soak asks for it, else those that take little to install and to run.
var all = os.Getenv("NEARCALL_REAL_PROGRAMS") == "all"

func TestMain(m *testing.M) { os.Exit(processes.Main(m, prepare)) }

func prepare(folder string) (err error) {
	built = folder
	if repository, err = filepath.Abs(root); err != nil {
		return err
	}
	list, wanted := "light", []string{"./gojq"}
	if all {
		list, wanted = "all", []string{"./gojq", "./yq"}
	}
	environment, err := exec.Command(repository+"/tools/python-environment", "requirements-"+list+".txt", "venv-real-"+list).Output()
	if err != nil {
		return fmt.Errorf("tools/python-environment: %w%s", err, errorsOf(err))
	}
	python = strings.TrimSpace(string(environment)) + "/bin/"
	wheels, _ := filepath.Glob(repository + "/build/python/dist/*.whl") // the pattern is a good one
	if len(wheels) != 1 {
		return fmt.Errorf("there is no wheel in build/python/dist: 'make build-python' makes it")
	}
	if err := processes.Run("python3", "-m", "zipfile", "-e", wheels[0], built+"/python"); err != nil {
		return err
	}
	return processes.Run(append([]string{"go", "build", "-C", "programs", "-o", built + "/"}, wanted...)...)
}

func errorsOf(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return ": " + string(exit.Stderr)
	}
	return ""
}

// A program of others, and a run of it.
type program struct {
	name      string
	light     bool
	options   []string // of the check
	arguments []string
	// other is why a caller with nothing in common runs plainly; "": that one is a resident's, too.
	other string
	code  int
}

// table has twelve and one programs; what they are run on is what prepareDirectory makes.
func table() []program {
	perl := []string{"--path", repository + "/build/perl/blib/lib," + repository + "/build/perl/blib/arch"}
	own := []string{"--path", built + "/python"}
	with := func(options []string, more ...string) []string {
		return append(append([]string{}, more...), options...)
	}
	return []program{
		{name: built + "/gojq", light: true, options: []string{"--input", "in.json"}, arguments: []string{".a"}},
		{name: built + "/yq", arguments: []string{"eval", ".a", "d.yaml"}},

		{name: "ack", light: true, options: perl, arguments: []string{"error"}},
		{name: "cloc", light: true, options: with(perl, "--ignore", "T="), arguments: []string{"."}},
		{name: "exiftool", light: true, options: with(perl, "--preload", "Image::ExifTool::PNG,Image::ExifTool::Exif", "--ignore", "File(Access|Inode)"),
			arguments: []string{"-json", "e.png"}, other: "HOME"},
		{name: "perlcritic", options: with(perl, "--preload", "Perl::Critic", "--same-directory=false"), arguments: []string{"--brutal", "c.pl"}, code: 2},

		{name: python + "black", light: true, options: own, arguments: []string{"--diff", "a.py"}, other: "HOME"},
		{name: python + "pygmentize", light: true, options: with(own, "--preload", "pygments.lexers.python,pygments.formatters.html"),
			arguments: []string{"-f", "html", "a.py"}},
		{name: python + "yamllint", light: true, options: own, arguments: []string{"d.yaml"}, code: 1},
		{name: python + "http", options: with(own, "--preload", "httpie.core,httpie.cli.definition", "--home", "home"),
			arguments: []string{"--ignore-stdin", "--offline", "POST", "example.org", "a=b"}, other: "variable"},
		{name: python + "mypy", options: own, arguments: []string{"a.py"}, other: "HOME"},
		{name: python + "aws", options: with(own, "--preload", "awscli.clidriver", "--home", "home"), arguments: []string{"configure", "get", "region"}, other: "variable"},
		{name: python + "ansible", options: own, arguments: []string{"localhost", "-i", "localhost,", "-c", "local", "-m", "debug", "-a", "msg=hi"}, other: "HOME"},
	}
}

// prepareDirectory makes something for each of them to work on, with what they read in it and
// in HOME.
func prepareDirectory(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\x00IEND\xaeB`\x82"
	for name, text := range map[string]string{
		"a.py": "def f( a,b ):\n  return a+b\n", "b.c": "int main(void) { return 0; }\n", "c.pl": "#!/usr/bin/perl\nmy $x = 1;\nprint $x;\n",
		"d.yaml": "---\na:  1\nb: [1,2]\n", "e.png": png, "in.json": `{"a": 1}`, "log": "error one\nfine\nerror two\n",
		"ansible.cfg": "[defaults]\nstdout_callback = minimal\n", "home/.aws/config": "[default]\nregion = eu-west-3\n",
		"home/.config/httpie/config.json": `{"default_options": ["--style=fruity"]}`,
	} {
		path := filepath.Join(directory, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// The fields of a report that are looked at.
type report struct {
	Same bool
	Runs []struct {
		Name, Plainly string
		ExitCode      int `json:"exit_code"`
		Milliseconds  int
	}
	Unchecked string
}

// Each program does the same as a resident, also as one that somebody else has started.
func TestRealPrograms(t *testing.T) {
	for _, p := range table() {
		if !p.light && !all {
			continue
		}
		t.Run(filepath.Base(p.name), func(t *testing.T) {
			r := p.check(t)
			if len(r.Runs) != 5 || r.Unchecked != "" {
				t.Fatalf("the report is %+v", r)
			}
			if code := r.Runs[0].ExitCode; code != p.code {
				t.Errorf("it ends with %d, expected %d", code, p.code)
			}
			if other := r.Runs[4].Plainly; (other == "") != (p.other == "") || !strings.Contains(other, p.other) {
				t.Errorf("another caller runs plainly because of %q, expected %q", other, p.other)
			}
			t.Logf("%d ms plainly, %d ms by a resident", r.Runs[1].Milliseconds, r.Runs[3].Milliseconds)
		})
	}
}

func (p program) check(t *testing.T) (r report) {
	t.Helper()
	arguments := append([]string{"resident", "check", "--json", "--timeout", "5m"}, p.options...)
	command := exec.Command(repository+"/build/bin/nearcall", append(append(arguments, p.name), p.arguments...)...)
	command.Dir = prepareDirectory(t)
	// Nothing of whoever runs the test is to be read by them.
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"}
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v%s\n%s", strings.Join(command.Args, " "), err, errorsOf(err), out)
	}
	if err := json.Unmarshal(out, &r); err != nil || !r.Same {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}
