package resident_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// A foreign is a program that knows nothing of residents. Its module writes a line to a file
// when it is loaded; "1" in the two texts is their version.
type foreign struct {
	kind    kind
	text    string // behind the first line
	module  string
	file    string
	options []string // where modules are
	first   string   // the first line, "": that of the interpreter's path
}

const foreignPython = `# -*- coding: utf-8 -*-
import re
import sys
from foreignmodule import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\.pyw|\.exe)?$', '', sys.argv[0])
    sys.exit(main("1"))
`

const foreignPythonModule = `
import os, sys

with open(os.path.dirname(__file__) + "/loaded", "a") as note:
    note.write("module\n")

def main(version="by its entry"):
    print("tool", version, "with", "1", sys.argv, sys.modules["__main__"].__name__, sys.path[0], os.getcwd())
    if sys.argv[1:2] == ["fail"]:
        raise ValueError("as it was told")
    if sys.argv[1:2] == ["text"]:
        return "the end"
    return int(sys.argv[1])
`

const foreignPerl = `
use strict;
use warnings;
use ForeignModule;

my $version = '1';
my @given   = @ARGV;
my $data    = do { local $/; <DATA> };

sub run {
    print "tool $version with $ForeignModule::VERSION $0 @given ", __FILE__, " $ENV{PWD} $data";
    die "as it was told\n" if $given[0] eq 'fail';
    exit $given[0];
}

END { print "the end\n" }

run() unless caller;

__DATA__
what stands below
`

const foreignPerlModule = `package ForeignModule;
our $VERSION = '1';
open my $note, '>>', __FILE__ =~ s{[^/]*\z}{loaded}r or die $!;
print {$note} "module\n";
close $note;
1;
`

// eachForeign runs a test for such a program in each language, in a place where its
// launcher stands first in PATH.
func eachForeign(t *testing.T, test func(t *testing.T, p *place, f foreign)) {
	blib := filepath.Join(root, "build/perl/blib")
	for _, f := range []foreign{
		{text: foreignPython, module: foreignPythonModule, file: "foreignmodule.py"},
		{text: foreignPerl, module: foreignPerlModule, file: "ForeignModule.pm", options: []string{"--path", blib + "/lib," + blib + "/arch"}},
	} {
		for _, f.kind = range kinds() {
			if f.kind.name != "perl" && f.kind.name != "python" || (f.kind.name == "perl") != (len(f.options) > 0) {
				continue
			}
			t.Run(f.kind.name, func(t *testing.T) {
				p := newPlace(t, f.kind)
				for _, folder := range []string{"programs", "modules", "launchers"} {
					must(t, os.Mkdir(p.path(folder), 0o755))
				}
				p.program = p.path("programs/tool")
				p.env = append(p.env, "PATH="+p.path("launchers")+":"+p.path("programs")+":"+os.Getenv("PATH"), "NEARCALL_RUN_DEBUG=1",
					"PERL5LIB="+p.path("modules"), "PYTHONPATH="+p.path("modules"), "PYTHONDONTWRITEBYTECODE=1", "XDG_DATA_HOME="+p.path("data"))
				f.write(p)
				test(t, p, f)
			})
		}
	}
}

// write installs the program and its module as a package manager does.
func (f foreign) write(p *place) {
	first := "#!" + filepath.Join(root, "build/venv/bin/python") + "\n"
	if f.kind.name == "perl" {
		first = "#!/usr/bin/perl\n"
	}
	if f.first != "" {
		first = f.first
	}
	for path, text := range map[string]string{p.program: first + f.text, p.path("modules/" + f.file): f.module} {
		must(p.t, os.WriteFile(path+".new", []byte(text), 0o755))
		must(p.t, os.Rename(path+".new", path))
	}
}

// nearcall runs the command.
func (p *place) nearcall(arguments ...string) result {
	p.t.Helper()
	command := exec.Command(filepath.Join(root, "build/bin/nearcall"), append([]string{"resident"}, arguments...)...)
	command.Dir, command.Env = p.dir, p.env
	return finish(p.t, command)
}

func (p *place) installLauncher(f foreign, options ...string) {
	p.t.Helper()
	r := p.nearcall(append(append([]string{"install", "tool", "--into", p.path("launchers")}, f.options...), options...)...)
	p.expect(r, fmt.Sprintf("tool: %s keeps %s ready\n", p.path("launchers/tool"), p.program), 0)
}

// tool runs the program as its users do, or by its path.
func (p *place) tool(path string, arguments ...string) result {
	p.t.Helper()
	return finish(p.t, p.toolCommand(path, arguments...))
}

func (p *place) toolCommand(path string, arguments ...string) *exec.Cmd {
	command := exec.Command("/usr/bin/env", append([]string{path}, arguments...)...)
	command.Dir, command.Env = p.dir, append(p.env, "PWD="+p.dir)
	return command
}

// loads is how often the module was loaded since the last time that this was asked.
func (p *place) loads() int {
	text, err := os.ReadFile(p.path("modules/loaded"))
	if !os.IsNotExist(err) {
		must(p.t, err)
		must(p.t, os.Remove(p.path("modules/loaded")))
	}
	return strings.Count(string(text), "\n")
}

// expectAsPlain expects that runs by the launcher are as plain ones, and by a resident.
func (p *place) expectAsPlain(runs ...string) {
	p.t.Helper()
	for _, argument := range runs {
		plain, got := p.tool(p.program, argument), p.tool("tool", argument)
		if got.output != plain.output || got.errors != plain.errors || got.code != plain.code {
			p.t.Errorf("with %s: %s, and plainly %s", argument, got, plain)
		}
	}
}

// A program of others runs by its launcher as plainly, loads once, and is not touched.
func TestInstalled(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		before, err := os.Stat(p.program)
		must(t, err)
		p.installLauncher(f)
		p.expectAsPlain("0", "3", "fail", "text", "0", "255")
		p.waitRuns(6)
		p.loads()
		for range 5 {
			p.tool("tool", "0")
		}
		if loads := p.loads(); loads != 0 {
			t.Errorf("five runs loaded the module %d times", loads)
		}
		list := p.nearcall("installed")
		p.expect(list, fmt.Sprintf("tool  %s  %s\n", p.path("launchers/tool"), p.program), 0)
		after, err := os.Stat(p.program)
		must(t, err)
		if !os.SameFile(before, after) || before.ModTime() != after.ModTime() {
			t.Error("the program is another file")
		}
		if r := p.tool("tool", "--no-resident", "4"); r.code != 4 {
			t.Errorf("plainly: %s", r)
		}
	})
}

// The package manager puts a new version there, with other files, and the launcher serves it.
func TestInstalledIsUpgraded(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		p.installLauncher(f)
		p.expectAsPlain("0", "3")
		old := p.waitRuns(2)
		f.text, f.module = strings.Replace(f.text, "1", "2", 1), strings.Replace(f.module, `1`, `2`, 1)
		f.text = strings.Replace(f.text, `"1"`, `"2"`, 1)
		f.write(p)
		p.expectAsPlain("0", "3")
		processes.WaitFor(t, "the old version to leave", settleTimeout, func() bool { return len(p.sockets()) == 1 })
		if now := p.waitRuns(2); now.PID == old.PID {
			t.Error("the old version still runs")
		}
		// A module alone: the program's own file, and with it its place, stays.
		old = p.waitIdle()
		f.module = strings.Replace(f.module, "as it was told", "as it was told again", 1) + "# another version\n"
		if f.kind.name == "perl" {
			f.module = strings.Replace(f.module, "'2'", "'3'", 1)
		}
		module := p.path("modules/" + f.file)
		must(t, os.WriteFile(module+".new", []byte(f.module), 0o644))
		must(t, os.Rename(module+".new", module))
		want := p.tool(p.program, "0").output
		processes.WaitFor(t, "another resident", settleTimeout, func() bool {
			if r := p.tool("tool", "0"); r.output != want { // plainly, while the resident leaves
				t.Errorf("%s, not %q", r, want)
			}
			sockets := p.sockets()
			if len(sockets) != 1 {
				return false
			}
			a, err := ask(sockets[0], kindStatus)
			return err == nil && a.PID != old.PID
		})
		p.expectAsPlain("fail", "0")
	})
}

// A link to the launcher, whatever its name, is the launcher: the same resident serves it, also
// after an upgrade.
func TestInstalledByALink(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		p.installLauncher(f)
		must(t, os.Mkdir(p.path("own"), 0o755))
		must(t, errors.Join(os.Symlink("../launchers/tool", p.path("own/tool")), os.Symlink("tool", p.path("own/alias"))))
		p.env = append(p.env, "PATH="+p.path("own")+":"+p.path("launchers")+":"+p.path("programs")+":"+os.Getenv("PATH"))
		for _, version := range []string{"1", "2"} {
			for _, called := range []string{"alias", "tool", p.path("own/alias"), "own/tool", "launchers/tool"} {
				plain, got := p.tool(p.program, "3"), p.tool(called, "3")
				if got.output != plain.output || got.errors != plain.errors || got.code != plain.code || !strings.Contains(got.output, "tool "+version) {
					t.Errorf("as %s: %s, and plainly %s", called, got, plain)
				}
			}
			processes.WaitFor(t, "the old version to leave", settleTimeout, func() bool { return len(p.sockets()) == 1 })
			p.waitRuns(5)
			if version == "1" {
				f.text = strings.Replace(strings.Replace(f.text, `"1"`, `"2"`, 1), `'1'`, `'2'`, 1)
				f.write(p)
			}
		}
	})
}

// A directory that PATH has by two names holds each launcher once.
func TestInstalledIsFoundOnce(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		p.installLauncher(f)
		must(t, os.Symlink("launchers", p.path("again")))
		p.env = append(p.env, "PATH="+p.path("launchers")+":"+p.path("again")+":"+p.path("programs")+":"+os.Getenv("PATH"))
		p.expect(p.nearcall("installed"), fmt.Sprintf("tool  %s  %s\n", p.path("launchers/tool"), p.program), 0)
		p.expect(p.nearcall("remove", "tool"), fmt.Sprintf("tool: %s is removed\n", p.path("launchers/tool")), 0)
	})
}

// What is removed is the launcher, and its resident leaves.
func TestInstalledIsRemoved(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		p.installLauncher(f)
		p.expectAsPlain("0")
		p.expect(p.nearcall("remove", "tool"), fmt.Sprintf("tool: %s is removed\n", p.path("launchers/tool")), 0)
		processes.WaitFor(t, "the resident to leave", settleTimeout, func() bool { return len(p.processes()) == 0 })
		if entries, err := os.ReadDir(p.path("launchers")); err != nil || len(entries) != 0 {
			t.Errorf("there is still %v, %v", entries, err)
		}
		p.expectAsPlain("3")
		if r := p.nearcall("remove", "tool"); r.code != 1 || !strings.Contains(r.errors, "there is no launcher of it") {
			t.Error(r)
		}
	})
}

const (
	readingPython = foreignPythonModule + `
early = [os.environ.get("EARLY"), os.path.exists("where")]
import atexit
atexit.register(lambda: print(early))
`
	readingPerl = `package ForeignModule;
our $VERSION = ($ENV{EARLY} // 'none') . (-e 'where' ? 1 : 0);
1;
`
)

// What its modules read when they are loaded counts, as in a program with the line.
func TestInstalledReads(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		f.module = map[string]string{"python": readingPython, "perl": readingPerl}[f.kind.name]
		f.write(p)
		p.installLauncher(f)
		p.env = append(p.env, "PWD="+p.dir) // which the run reads
		must(t, errors.Join(os.Mkdir(p.path("two"), 0o755), os.WriteFile(p.path("two/where"), nil, 0o644)))
		for i, c := range []looker{
			{with: []string{"EARLY=a"}},
			{with: []string{"EARLY=b"}, reason: "the variable EARLY is read before the run"},
			{reason: "the variable EARLY is read before the run"},
			{with: []string{"EARLY=a"}, in: "two", reason: "directory"},
			{with: []string{"EARLY=a", "OTHER=1"}},
		} {
			p.lookBy(i, c, []string{"tool", "0"}, []string{p.program, "0"})
		}
	})
}

// A program that env starts runs by the interpreter that env finds for each of its callers.
func TestInstalledByEnv(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		commands := map[string]string{"python": "python3", "perl": "perl"}[f.kind.name]
		f.first = "#!/usr/bin/env " + commands + "\n"
		f.module = strings.Replace(f.module, "os.getcwd())", "os.getcwd(), sys.executable)", 1)
		one, other := p.path("one"), p.path("other")
		if f.kind.name == "python" {
			one, other = p.environmentForPython("one"), p.environmentForPython("other")
		} else {
			for _, folder := range []string{one, other} {
				must(t, errors.Join(os.Mkdir(folder, 0o755), os.Symlink("/usr/bin/perl", filepath.Join(folder, commands))))
			}
		}
		f.write(p)
		with := func(commands string) []string {
			return []string{"PATH=" + commands + ":" + p.path("launchers") + ":" + p.path("programs") + ":" + os.Getenv("PATH")}
		}
		p.env = append(p.env, "PWD="+p.dir, with(one)[0])
		p.installLauncher(f)
		for i, c := range []looker{
			{with: with(one)},
			{with: with(other), reason: "env would find another interpreter"},
			{with: with(one + ":/nowhere")},
		} {
			p.lookBy(i, c, []string{"tool", "0"}, []string{p.program, "0"})
		}
	})
}

// What somebody else has put in the launcher's place since is theirs.
func TestInstalledIsReplaced(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		link := p.path("launchers/tool")
		for _, replace := range []func() error{
			func() error { return os.WriteFile(link, []byte("#!/bin/sh\necho another\n"), 0o755) },
			func() error { return os.Symlink("/bin/true", link) },
		} {
			p.installLauncher(f)
			must(t, errors.Join(os.Remove(link), replace()))
			there, err := os.Lstat(link)
			must(t, err)
			r := p.nearcall(append([]string{"install", p.program, "--into", p.path("launchers")}, f.options...)...)
			if r.code != 1 || !strings.Contains(r.errors, "is there already and stays") {
				t.Error(r)
			}
			p.expect(p.nearcall("remove", "tool"), fmt.Sprintf("tool: %s stays, as it is no link to nearcall-run; what starts its resident is removed\n", link), 0)
			if now, err := os.Lstat(link); err != nil || !os.SameFile(there, now) {
				t.Errorf("it is gone: %v", err)
			}
			if list := p.nearcall("installed"); list.output != "" {
				t.Error(list)
			}
			must(t, os.Remove(link))
		}
		p.installLauncher(f)
		must(t, os.Remove(link))
		p.expect(p.nearcall("remove", "tool"), fmt.Sprintf("tool: %s is removed\n", link), 0)
	})
}

// What is named is loaded by the resident, and called in place of the file.
func TestInstalledWithEntry(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		modules := map[string]string{"python": "json.tool,foreignmodule", "perl": "Text::Wrap,ForeignModule"}
		if f.kind.name == "perl" {
			if r := p.nearcall("install", "tool", "--entry", "foreignmodule:main"); r.code != 1 || !strings.Contains(r.errors, "--entry is for programs in Python") {
				t.Error(r)
			}
			p.installLauncher(f, "--preload", modules[f.kind.name])
			p.expectAsPlain("0")
			return
		}
		p.installLauncher(f, "--entry", "foreignmodule:main", "--preload", modules[f.kind.name])
		for _, argument := range []string{"0", "7"} {
			r := p.tool("tool", argument)
			if !strings.HasPrefix(r.output, "tool by its entry with 1 ['"+p.program+"', '"+argument+"']") || itoa(r.code) != argument {
				t.Error(r)
			}
		}
		p.waitRuns(2)
	})
}

// What a program reads before its runs where nobody sees it is said when it is installed, with the
// options that programs have which hold the line themselves.
func TestInstalledWithOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options []string
		other   func(p *place, tool *exec.Cmd)
		reason  string
	}{
		"same directory": {[]string{"--same-directory"}, func(p *place, tool *exec.Cmd) { tool.Dir = "/" }, "the program reads its directory"},
		"early input":    {[]string{"--early-input"}, func(p *place, tool *exec.Cmd) { tool.Stdin = strings.NewReader("something") }, "standard input"},
		"environment":    {[]string{"--environment", "OWN_*,OTHER"}, func(p *place, tool *exec.Cmd) { tool.Env = append(tool.Env, "OWN_NAME=1") }, "the variable OWN_NAME is read before the run"},
		"none": {nil, func(p *place, tool *exec.Cmd) {
			tool.Dir, tool.Stdin, tool.Env = "/", strings.NewReader("something"), append(tool.Env, "OWN_NAME=1")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			eachForeign(t, func(t *testing.T, p *place, f foreign) {
				p.installLauncher(f, c.options...)
				p.expectAsPlain("0", "3")
				tool := p.toolCommand("tool", "0")
				c.other(p, tool)
				r := finish(t, tool)
				if (r.errors == "") != (c.reason == "") || !strings.Contains(r.errors, c.reason) || r.code != 0 {
					t.Errorf("another caller has %s; expected to be plain because of %q", r, c.reason)
				}
			})
		})
	}
}

// A file that is read before the runs, and named, lets the resident leave when it changes.
func TestInstalledWithAFileToWatch(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		must(t, os.WriteFile(p.path("settings"), nil, 0o644))
		p.installLauncher(f, "--watch", p.path("settings"))
		p.expectAsPlain("0")
		p.waitRuns(1)
		must(t, os.WriteFile(p.path("settings"), []byte("changed"), 0o644))
		processes.WaitFor(t, "the resident to leave", settleTimeout, func() bool { return len(p.sockets()) == 0 })
	})
}

// What cannot be made resident is said at once, and nothing is made.
func TestInstallRefuses(t *testing.T) {
	eachForeign(t, func(t *testing.T, p *place, f foreign) {
		must(t, os.WriteFile(p.path("launchers/other"), []byte("#!/bin/sh\n"), 0o755))
		must(t, os.WriteFile(p.path("programs/shell"), []byte("#!/bin/sh\n"), 0o755))
		must(t, os.Symlink("/bin/true", p.path("programs/binary")))
		must(t, os.WriteFile(p.path("programs/other"), []byte("#!/usr/bin/perl\n"), 0o755))
		for _, c := range []struct{ arguments, want string }{
			{"nowhere-to-find", "there is no program nowhere-to-find in PATH"},
			{"./nowhere-to-find", "no such file"},
			{"shell", "neither Perl nor Python"},
			{"binary", "is no script"},
			{"tool --preload Not::There::Atall,notthere", "cannot be made resident"},
			{p.path("programs/other") + " --path " + filepath.Join(root, "build/perl/blib/lib") + "," + filepath.Join(root, "build/perl/blib/arch"), "is there already and stays"},
			{"tool --perl --python", "none of the others can be"},
		} {
			arguments := append(strings.Fields(c.arguments), "--into", p.path("launchers"))
			if r := p.nearcall(append([]string{"install"}, arguments...)...); r.code == 0 || !strings.Contains(r.errors, c.want) {
				t.Errorf("%s: %s, not %q", c.arguments, r, c.want)
			}
		}
		if entries, err := os.ReadDir(p.path("launchers")); err != nil || len(entries) != 1 {
			t.Errorf("there is %v, %v", entries, err)
		}
	})
}
