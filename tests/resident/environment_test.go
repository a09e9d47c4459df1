package resident_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
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
			{with: []string{"CHANGED=c", "REMOVED=b", "OTHER=3"}, because: "the variable CHANGED "},
			{with: []string{"CHANGED=a", "REMOVED=d", "OTHER=4"}, because: "the variable REMOVED "},
			{with: append(ordinary, "SET=e", "OTHER=5"), because: "the program changes the variable SET "},
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
			if because := strings.Contains(got.errors, c.because); !because || (got.errors == "") != (c.because == "") {
				t.Errorf("caller %d ran plainly because of %q, and not of %q", i, got.errors, c.because)
			}
		}
	})
}

// A resident lives for days; the kernel shows nobody what it was started with.
func TestEnvironmentIsNotShown(t *testing.T) {
	const secret = "of who started it"
	eachKind(t, all, func(t *testing.T, p *place) {
		shown := func(text string) (count int) {
			for _, process := range p.processes() {
				environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", process))
				count += strings.Count(string(environment), text)
			}
			return count
		}
		for _, other := range []string{secret, "of another"} {
			run := p.command("changed")
			run.Env = append(run.Env, "NEARCALL_RUN_DEBUG=1", "CHANGED="+secret, "OTHER="+other)
			if r := finish(t, run); !strings.HasSuffix(r.output, fmt.Sprintf(",%s,none,%s\n", secret, other)) || r.errors != "" {
				t.Error(r)
			}
			// A process that waits for runs may be about to load the program.
			processes.WaitFor(t, "nothing to be shown", settleTimeout, func() bool { return shown(secret) == 0 })
		}
		if shown("NEARCALL_RESIDENT_LOCK="+p.residents()) == 0 {
			t.Error("nothing tells whose residents these are")
		}
	})
}
