package resident_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A state is what a run has, as the programs report it.
type state struct {
	Args     []string `json:"args"`
	Mark     string   `json:"mark"`
	Extra    string   `json:"extra"`
	Names    []string `json:"names"`
	Dir      string   `json:"dir"`
	Where    string   `json:"where"`
	Umask    int      `json:"umask"`
	Input    string   `json:"input"`
	Resident int      `json:"resident"`
	PID      int      `json:"pid"`
	Version  string   `json:"version"`
	Wrong    string   `json:"wrong"`
}

// parse reads one report, the only one unless at says which.
func parse(t *testing.T, output string, at int) (s state) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	if at >= len(lines) {
		t.Fatalf("no report %d in %q", at, output)
	}
	if err := json.Unmarshal([]byte(lines[at]), &s); err != nil {
		t.Fatalf("%q is no report: %v; it is line %d of %q", lines[at], err, at, output)
	}
	return s
}

// A caller is what one run differs by from the others.
type caller struct {
	number int
	dir    string
	umask  int
}

// newCaller makes a caller with a directory of its own.
func (p *place) newCaller(number int) *caller {
	p.t.Helper()
	c := &caller{number: number, dir: p.path("of " + strconv.Itoa(number)), umask: number * 7 % 0o100 & 0o77}
	must(p.t, os.MkdirAll(c.dir, 0o755))
	must(p.t, os.WriteFile(filepath.Join(c.dir, "where"), []byte(c.dir), 0o644))
	return c
}

func (c *caller) code() int { return c.number % 125 }

func (c *caller) mark() string { return fmt.Sprintf("mark of %d", c.number) }

// extra is a variable that only every other caller has.
func (c *caller) extra() string {
	if c.number%2 == 0 {
		return ""
	}
	return fmt.Sprintf("extra of %d", c.number)
}

func (c *caller) arguments(verb string) []string {
	return []string{verb, strconv.Itoa(c.code()), "number " + strconv.Itoa(c.number), "", "päge\n"}
}

// command is a run of this caller, after a shell that sets its umask.
func (c *caller) command(p *place, verb string) *exec.Cmd {
	command := p.command(c.arguments(verb)...)
	command.Args = append([]string{"sh", "-c", fmt.Sprintf(`umask %o; exec "$0" "$@"`, c.umask), launcher}, command.Args[1:]...)
	command.Path = "/bin/sh"
	command.Dir = c.dir
	command.Env = append(command.Env, "MARK="+c.mark())
	if c.extra() != "" {
		command.Env = append(command.Env, "EXTRA="+c.extra())
	}
	command.Stdin = strings.NewReader(c.input())
	return command
}

func (c *caller) input() string { return fmt.Sprintf("input of %d", c.number) }

// check compares a run's state with this caller's own.
func (c *caller) check(p *place, s state, input string) {
	t := p.t
	t.Helper()
	want := state{
		Args: append([]string{p.program}, c.arguments(s.verb())...), Mark: c.mark(), Extra: c.extra(), Names: c.names(p), Dir: c.dir,
		Where: c.dir, Umask: c.umask, Input: input, Resident: s.Resident, PID: s.PID, Version: s.Version,
	}
	// What shells and interpreters add is the same in a plain run.
	s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(name string) bool { return slices.Contains([]string{"PWD", "OLDPWD", "_", "SHLVL"}, name) })
	if got, want := fmt.Sprintf("%#v", s), fmt.Sprintf("%#v", want); got != want {
		t.Errorf("caller %d has\n%s\nnot\n%s", c.number, got, want)
	}
}

func (s state) verb() string {
	if len(s.Args) < 2 {
		return ""
	}
	return s.Args[1]
}

func (c *caller) names(p *place) []string {
	names := []string{"MARK"}
	if c.extra() != "" {
		names = append(names, "EXTRA")
	}
	for _, variable := range p.env {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// checkEnd compares how the run ended.
func (c *caller) checkEnd(p *place, r result, reports int) {
	p.t.Helper()
	errors := strings.Repeat("mark "+c.mark()+"\n", reports)
	if r.code != c.code() || r.errors != errors {
		p.t.Errorf("caller %d: %s, not code %d, errors %q", c.number, r, c.code(), errors)
	}
}
