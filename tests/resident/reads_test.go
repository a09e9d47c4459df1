package resident_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A looker is a caller of a program that looks at something before its runs.
type looker struct {
	with   []string // variables
	in     string   // directory; "": that of the place
	piped  bool
	reason string // why it runs plainly, "": it does not
}

// lookers are those of what there is to look at, with a first one that starts the resident.
func lookers() map[string][]looker {
	variable := []looker{{with: []string{"EARLY=a"}}, {with: []string{"EARLY=b"}, reason: "the variable EARLY is read before the run"}, {reason: "the variable EARLY is read before the run"}, {in: "two", with: []string{"EARLY=a", "OTHER=1"}}}
	directory := []looker{{}, {in: "two", reason: "directory"}, {with: []string{"EARLY=a"}}, {piped: true}}
	return map[string][]looker{
		"variable":  variable,
		"variables": {{with: []string{"EARLY=a", "_=x", "SHLVL=1"}}, {with: []string{"EARLY=a", "_=y", "SHLVL=2"}}, {with: []string{"EARLY=a", "EARLY2=b"}, reason: "the variable EARLY2 is read before the run"}, {in: "two", with: []string{"EARLY=a"}}},
		"directory": directory,
		"file":      directory,
		"module":    directory,
		"input":     {{}, {piped: true, reason: "standard input"}, {in: "two"}, {}},
	}
}

// A program that has read something before its runs is not run for callers of whom it
// would have read something else. Each has what it has in a plain run.
func TestWhatIsReadBefore(t *testing.T) {
	for what, callers := range lookers() {
		t.Run(what, func(t *testing.T) {
			eachKind(t, func(k kind) bool { return !k.isGo() || what != "variables" && what != "module" }, func(t *testing.T, p *place) {
				p.env = append(p.env, "PROGRAM_EARLY="+what, "NEARCALL_RUN_DEBUG=1")
				must(t, os.Mkdir(p.path("two"), 0o755))
				for _, name := range []string{"where", "early.py", "early.pm"} {
					must(t, os.WriteFile(filepath.Join(p.path("two"), name), []byte("1;"), 0o644))
				}
				for i, c := range callers {
					p.look(i, c)
				}
			})
		})
	}
}

// A directory is that which the kernel names, also where a shell came there by a link; in
// Go the program sees which way it came.
func TestDirectoryByALink(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.env = append(p.env, "PROGRAM_EARLY=directory", "NEARCALL_RUN_DEBUG=1")
		must(t, errors.Join(os.Mkdir(p.path("two"), 0o755), os.Symlink("two", p.path("link"))))
		byLink := looker{in: "link", with: []string{"PWD=" + p.path("link")}}
		byName, byNone := looker{in: "two", with: []string{"PWD=" + p.path("two")}}, looker{in: "link", with: []string{"PWD=/"}}
		if p.kind.isGo() {
			byName.reason, byNone.reason = "directory", "directory"
		}
		for i, c := range []looker{byLink, byLink, byName, byNone, byLink} {
			p.look(i, c)
		}
	})
}

// look compares a run with a plain one.
func (p *place) look(number int, c looker) {
	p.t.Helper()
	p.lookBy(number, c, p.command("early").Args, []string{p.program, "early"})
}

// lookBy compares what two commands do, of which the second runs plainly.
func (p *place) lookBy(number int, c looker, command, plain []string) {
	p.t.Helper()
	got, want := p.lookWith(c, command), p.lookWith(c, plain)
	if got.output != want.output || got.code != 0 || want.code != 0 {
		p.t.Errorf("caller %d has %s, and plainly %s", number, got, want)
	}
	if (got.errors == "") != (c.reason == "") || !strings.Contains(got.errors, c.reason) {
		p.t.Errorf("caller %d ran plainly because of %q, and not of %q", number, got.errors, c.reason)
	}
}

func (p *place) lookWith(c looker, arguments []string) result {
	p.t.Helper()
	command := exec.Command("/usr/bin/env", arguments...)
	command.Dir, command.Env = p.path(c.in), slices.Concat(p.env, c.with)
	if c.piped {
		command.Stdin = strings.NewReader("something")
	}
	return finish(p.t, command)
}
