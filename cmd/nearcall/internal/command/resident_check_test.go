package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A checked is a program to check, in a directory of its own.
type checked struct {
	t           *testing.T
	directory   string
	environment []string
}

func newChecked(t *testing.T) *checked {
	t.Helper()
	home, environment := t.TempDir(), os.Environ()
	repository, err := filepath.Abs(root)
	must(t, err)
	blib := repository + "/build/perl/blib"
	environment = append(environment, "HOME="+home, "PATH="+strings.Join([]string{filepath.Dir(binary), repository + "/build/bin", os.Getenv("PATH")}, ":"),
		"PERL5LIB="+blib+"/lib:"+blib+"/arch", "PYTHONDONTWRITEBYTECODE=1")
	return &checked{t, t.TempDir(), environment}
}

func (c *checked) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.directory, name)
	must(c.t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

func (c *checked) python() string {
	repository, err := filepath.Abs(root)
	must(c.t, err)
	return "#!" + repository + "/build/venv/bin/python\n"
}

func (c *checked) check(arguments ...string) run {
	c.t.Helper()
	work := filepath.Join(c.directory, "work")
	must(c.t, os.MkdirAll(work, 0o755))
	command := exec.Command(binary, append([]string{"resident", "check"}, arguments...)...)
	command.Dir, command.Env = work, append(c.environment, "PWD="+work)
	var out, failures strings.Builder
	command.Stdout, command.Stderr = &out, &failures
	_ = command.Run() // its code says it
	return run{out.String(), failures.String(), command.ProcessState.ExitCode()}
}

const (
	madePython = `import nearcall.resident
import os, sys
%BEFORE%
def main():
    os.umask(0o22)
    with open("made", "w") as file:
        file.write("by a run")
    print("arguments", sys.argv[1:], repr(EARLY))
    print("input", sys.stdin.read(), file=sys.stderr)
    return 3
nearcall.resident.main(main)
`
	madePerl = `#!/usr/bin/perl
use Nearcall::Resident;
my $early;
BEGIN { $early = %BEFORE%; }
resident {
    umask 022;
    open my $file, '>', 'made' or die $!;
    print {$file} 'by a run';
    close $file;
    print "arguments @ARGV $early\n";
    print {*STDERR} 'input ', <STDIN>;
    exit 3;
};
`
)

// Programs that are like plain ones, and such that have read something too early.
func TestResidentCheck(t *testing.T) {
	for name, c := range map[string]struct {
		text, before string
		code         int
		want         []string
	}{
		"python":          {madePython, "EARLY = 1", 0, []string{"Same: output, errors, how it ends, 1 file."}},
		"perl":            {madePerl, "1", 0, []string{"Same: output, errors, how it ends, 1 file."}},
		"noticed":         {madePython, "EARLY = os.environ.get('HOME')", 0, []string{"Same", "plain: the variable HOME", "callers with the same have this resident: HOME"}},
		"noticed in perl": {madePerl, "-e 'there' ? 1 : 0", 0, []string{"Same", "plain: the program reads its directory", "the directory"}},
		"stale":           {madePython, "import posix; EARLY = 'there' in posix.listdir('.')", 1, []string{`Different in the run "resident that another caller has started": output, line 1`, "same_directory"}},
		"arguments":       {madePython, "EARLY = len(sys.argv)", 1, []string{`Different in the run "resident": output, line 1`, "--nearcall-resident as its only argument"}},
		"varies":          {madePython, "EARLY = os.getpid()", 0, []string{"Differs by itself, and is not compared: output, line 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newChecked(t)
			text := strings.Replace(c.text, "%BEFORE%", c.before, 1)
			if !strings.HasPrefix(text, "#!") {
				text = p.python() + text
			}
			program := p.write("program", text)
			must(t, os.Mkdir(filepath.Join(p.directory, "work"), 0o755))
			must(t, os.WriteFile(filepath.Join(p.directory, "work/there"), nil, 0o644))
			input := p.write("input", "what is read\n")
			p.check("--pipe", input, program, "a", "--b").expect(t, c.code, c.want...)
			if _, err := os.Stat(filepath.Join(p.directory, "work/made")); err == nil {
				t.Error("the program ran in the directory itself")
			}
		})
	}
}

// A program of others is checked as it would be installed.
func TestResidentCheckOfOthers(t *testing.T) {
	p := newChecked(t)
	program := p.write("tool", p.python()+"import json, sys\nif __name__ == '__main__':\n    print(sys.argv[1:], __file__)\n")
	p.check(program, "--help").expect(t, 0, "Same: output, errors, how it ends, no files.")
	var report struct {
		Same bool
		Runs []struct {
			Name     string
			ExitCode int `json:"exit_code"`
			Plainly  string
		}
		Reads struct{ Directory, Input bool }
	}
	must(t, json.Unmarshal([]byte(p.check("--json", program).expect(t, 0).out), &report))
	if !report.Same || len(report.Runs) != 5 || report.Runs[3].Plainly != "" {
		t.Errorf("the report is %+v", report)
	}
}

// It tells what is touched before the run, and what is loaded in it, with the line to add.
func TestResidentCheckTellsWhatIsTouched(t *testing.T) {
	p := newChecked(t)
	configuration := p.write("configuration", "x")
	python := p.write("a.py", p.python()+"import nearcall.resident\nimport os, time\nSTART = time.time()\nopen('"+configuration+"').close()\n"+
		"def main():\n    import wave, json.tool\nnearcall.resident.main(main)\n")
	p.check(python).expect(t, 0, "time        time.time  (__main__:4)", "file        "+configuration+"  (__main__:5)",
		`    resident.main(..., watch=["`+configuration+`"])`, "Loaded in each run: wave json.tool", "    import wave, json.tool\n", "Not seen: ")
	perl := p.write("a.pl", "#!/usr/bin/perl\nuse Nearcall::Resident;\nBEGIN { open my $f, '<', '"+configuration+"'; my $t = time; }\nresident { require Text::Wrap; };\n")
	p.check(perl).expect(t, 0, "time        time  ("+perl+":3)", `    resident { ... } watch => ["`+configuration+`"];`, "    use Text::Wrap ();\n", "Not seen: ")
	other := p.write("other", p.python()+"import os\nopen('"+configuration+"').close()\nif 1:\n    import wave\n")
	p.check("--environment", "A,B", "--same-directory", "--early-input=false", other, "x", "it's $A").expect(t, 0, "Loaded in each run: wave",
		"    nearcall resident check --preload wave --environment A,B --same-directory=true --early-input=false "+other+` x 'it'\''s $A'`+"\n")
	p.check("--preload", "wave", other, "x").expect(t, 0, "Touched")
}

// What cannot be compared is said, with another code.
func TestResidentCheckComparesNothing(t *testing.T) {
	p := newChecked(t)
	broken := p.write("broken", p.python()+"import nearcall.resident\nimport sys\nsys.exit('not today')\n")
	endless := p.write("endless", p.python()+"import nearcall.resident\nwhile True:\n    print('x' * 10000)\n")
	for arguments, want := range map[string]struct {
		code int
		text string
	}{
		"/bin/true":                              {3, "is no script, and is not made for it"},
		broken:                                   {3, "not today"},
		"--preload notthere " + broken:           {3, "cannot be made resident"},
		"--timeout 1ms " + broken:                {3, "--timeout is how long it may take"},
		endless:                                  {3, "it wrote more than 64 MiB"},
		"--directory /nowhere/to/find " + broken: {2, "the current directory is not in it"},
		"--ignore ( " + broken:                   {2, "missing closing"},
		"nowhere-to-find":                        {3, "there is no program"},
	} {
		if r := p.check(strings.Fields(arguments)...); r.code != want.code || !strings.Contains(r.err, want.text) {
			t.Errorf("%s: %d, %s%s; not %v", arguments, r.code, r.out, r.err, want)
		} else if strings.Contains(r.err, "nearcall-check-") {
			t.Errorf("%s: %s: the check has removed what this names", arguments, r.err)
		}
	}
}

// A program that hangs while it is loaded as a resident is not left behind.
func TestResidentCheckOfOneThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for runs that never end")
	}
	t.Parallel()
	p := newChecked(t)
	hangs := p.write("hangs", p.python()+`import os, signal, sys
if sys.argv[1:] == ["--nearcall-resident"]:
    with open(os.path.join(os.path.dirname(__file__), "processes"), "a") as file:
        print(os.getpid(), file=file)
    signal.pause()
    import nearcall.resident
`)
	r := p.check("--timeout", "5s", hangs)
	if r.code != 3 || !strings.Contains(r.err, "--timeout is how long it may take") {
		t.Errorf("%d, %s%s", r.code, r.out, r.err)
	}
	text, err := os.ReadFile(filepath.Join(p.directory, "processes"))
	must(t, err)
	for _, process := range strings.Fields(string(text)) {
		// One that nobody has waited for yet has no command any more.
		if command, _ := os.ReadFile("/proc/" + process + "/cmdline"); len(command) > 0 {
			t.Errorf("process %s is still there: %q", process, command)
		}
	}
}
