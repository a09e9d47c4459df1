package resident_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// A terminal is a real one, with a shell in it.
type terminal struct {
	p      *place
	socket string
	clears int
}

// prompt is what the shell says when it waits.
const prompt = "prompt> "

// newTerminal starts a shell with job control that does not touch the terminal's modes.
func (p *place) newTerminal() *terminal {
	p.t.Helper()
	term := &terminal{p: p, socket: filepath.Join(p.dir, "tmux")}
	command := exec.Command("tmux", "-S", term.socket, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh -i")
	command.Dir = p.dir
	command.Env = append(slices.Clone(p.env), "PS1="+prompt, "SHELL=/bin/sh", "run="+launcher+" "+p.program)
	output, err := command.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", command, err, output)
	}
	p.t.Cleanup(func() { term.tmux("kill-server") })
	term.waitFor(`(?m)^prompt>`)
	return term
}

func (term *terminal) tmux(arguments ...string) string {
	term.p.t.Helper()
	command := exec.Command("tmux", append([]string{"-S", term.socket}, arguments...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		term.p.t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return string(output)
}

// keys presses keys, by tmux's names.
func (term *terminal) keys(keys ...string) {
	term.p.t.Helper()
	term.tmux(append([]string{"send-keys", "-t", "0"}, keys...)...)
}

// enter types a command.
func (term *terminal) enter(text string) {
	term.p.t.Helper()
	term.tmux("send-keys", "-t", "0", "-l", text)
	term.keys("Enter")
}

func (term *terminal) screen() string {
	term.p.t.Helper()
	return strings.TrimRight(term.tmux("capture-pane", "-p", "-t", "0"), "\n")
}

// waitFor waits until the screen has a text, and returns its parts.
func (term *terminal) waitFor(pattern string) (parts []string) {
	term.p.t.Helper()
	expression := regexp.MustCompile(pattern)
	processes.WaitFor(&shown{term.p.t, term}, fmt.Sprintf("%q on the screen", pattern), settleTimeout, func() bool {
		parts = expression.FindStringSubmatch(term.screen())
		return parts != nil
	})
	return parts
}

// clear empties the screen, so that the next text is a new one.
func (term *terminal) clear() {
	term.p.t.Helper()
	term.clears++
	term.enter(fmt.Sprintf("clear; echo cleared %d", term.clears))
	term.waitFor(fmt.Sprintf(`\Acleared %d\nprompt> *\z`, term.clears))
}

// expectCode expects how the last command ended, as the shell says.
func (term *terminal) expectCode(code int) {
	term.p.t.Helper()
	term.enter("echo the code is $?")
	if got := term.waitFor(`the code is (\d+)`)[1]; got != fmt.Sprint(code) {
		term.p.t.Errorf("the code is %s, not %d", got, code)
	}
}

// modes are those of the terminal.
func (term *terminal) modes() string {
	term.p.t.Helper()
	term.clear()
	term.enter("stty -a; echo modes end")
	return term.waitFor(`(?s)(speed .*)\nmodes end\n`)[1]
}

// A shown is a test that shows the screen when it fails.
type shown struct {
	testing.TB
	term *terminal
}

// Fatalf implements testing.TB.
func (s *shown) Fatalf(format string, arguments ...any) {
	s.Helper()
	s.Logf("the screen:\n%s", s.term.screen())
	s.TB.Fatalf(format, arguments...)
}
