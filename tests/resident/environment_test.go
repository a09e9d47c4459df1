package resident_test

import (
	"os/exec"
	"strings"
	"testing"
)

// What a program sets, changes and removes before its runs is so in all of them, on top of
// what their callers have. A caller of whom the program would have made something else
// gets a plain run.
func TestEnvironmentChangedBefore(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.env = append(p.env, "PROGRAM_CHANGES=1", "NEARCALL_RUN_DEBUG=1")
		ordinary := []string{"CHANGED=a", "REMOVED=b"}
		for i, c := range []struct {
			with    []string
			because string
		}{
			{with: append(ordinary, "OTHER=1")},
			{with: append(ordinary, "OTHER=2")},
			{with: []string{"CHANGED=c", "REMOVED=b", "OTHER=3"}, because: "CHANGED"},
			{with: []string{"CHANGED=a", "REMOVED=d", "OTHER=4"}, because: "REMOVED"},
			{with: append(ordinary, "SET=e", "OTHER=5"), because: "SET"},
			{with: append(ordinary, "OTHER=6")},
		} {
			run, plain := p.command("changed"), p.command("changed")
			plain.Path, plain.Args = p.program, []string{p.program, "changed"}
			for _, command := range []*exec.Cmd{run, plain} {
				command.Env = append(command.Env, c.with...)
			}
			got, want := finish(t, run), finish(t, plain)
			if got.output != want.output || got.code != 0 || want.code != 0 {
				t.Errorf("caller %d has %s, and plainly %s", i, got, want)
			}
			if because := strings.Contains(got.errors, "the variable "+c.because+" "); because == (c.because == "") || (got.errors == "") != (c.because == "") {
				t.Errorf("caller %d ran plainly because of %q, and not of %q", i, got.errors, c.because)
			}
		}
	})
}
