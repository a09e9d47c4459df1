package resident_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// What a program prints may come after what was typed, on the same line: patterns do not
// begin with that of a line.

// A line is edited by the terminal, or by the library that the program has for it.
func TestTerminalEditsLines(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say") // so that the terminal is not that of the resident's start
		term := p.newTerminal()
		term.enter("$run line")
		term.waitFor(`line of \d+>`)
		if p.kind.name == "python" {
			// Readline's: to the left, to the beginning, to the end.
			term.keys("h", "e", "l", "o", "Left", "l", "C-a", "(", "C-e", ")", "Enter")
			term.waitFor(`(?m)got \[\(hello\)\]$`)
		} else {
			// The terminal's own: delete a character, and the line.
			term.keys("x", "y", "C-u", "h", "e", "l", "l", "p", "BSpace", "o", "Enter")
			term.waitFor(`(?m)got \[hello\]$`)
		}
		term.expectCode(0)
		p.expectResident()
	})
}

// expectResident expects that what ran was not run plainly.
func (p *place) expectResident() {
	p.t.Helper()
	p.waitRuns(2)
}

// The program is told that its window has another size, and what it is.
func TestTerminalIsResized(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say")
		term := p.newTerminal()
		term.enter("$run size")
		term.waitFor(`(?m)size 24 80`)
		term.tmux("resize-window", "-t", "0", "-x", "100", "-y", "30")
		term.waitFor(`(?m)resized 30 100`)
		term.tmux("resize-window", "-t", "0", "-x", "60", "-y", "20")
		term.waitFor(`(?m)resized 20 60`)
		term.keys("C-c")
		term.waitFor(`(?m)^(\^C)?prompt> *\z`)
		term.expectCode(exitInterrupted)
		p.expectResident()
	})
}

const exitInterrupted = 130

// ^C ends a program, and the shell goes on.
func TestTerminalInterrupts(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say")
		term := p.newTerminal()
		term.enter("$run wait")
		pid := number(term.waitFor(`(?m)waiting (\d+)$`)[1])
		term.keys("C-c")
		term.waitFor(`(?m)^(\^C)?prompt> *\z`)
		term.expectCode(exitInterrupted)
		if p.kind.own {
			p.waitGone(pid)
		}
		p.expectResident()
	})
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

// ^Z stops a program, the shell goes on, and fg continues it with its terminal.
func TestTerminalStopsAndContinues(t *testing.T) {
	eachKind(t, own, func(t *testing.T, p *place) {
		p.run("say")
		term := p.newTerminal()
		term.enter("$run line")
		pid := number(term.waitFor(`line of (\d+)>`)[1])
		for range 2 {
			term.keys("C-z")
			term.waitFor(`(?m)Stopped|Suspended`)
			processes.WaitFor(t, "the program to stop", settleTimeout, func() bool { return stateOf(t, pid) == "T" })
			term.clear()
			term.enter("echo $((20 + 3)) in the shell")
			term.waitFor(`(?m)23 in the shell$`)
			term.enter("fg")
			processes.WaitFor(t, "the program to go on", settleTimeout, func() bool { return stateOf(t, pid) != "T" })
		}
		term.enter("hello")
		term.waitFor(`(?m)got \[hello\]$`)
		term.expectCode(0)
		p.expectResident()
	})
	// Others are not stopped, but their caller is.
	eachKind(t, shared, func(t *testing.T, p *place) {
		p.run("say")
		term := p.newTerminal()
		term.enter("$run wait")
		term.waitFor(`(?m)waiting \d+$`)
		term.keys("C-z")
		term.waitFor(`(?m)Stopped|Suspended`)
		term.clear()
		term.enter("fg")
		// The shell gives the terminal away before it lets the launcher go on.
		pid := p.launchers()[0]
		processes.WaitFor(&shown{t, term}, "the launcher to go on", settleTimeout, func() bool { return stateOf(t, pid) != "T" })
		term.keys("C-c")
		term.waitFor(`(?m)^(\^C)?prompt> *\z`)
		term.expectCode(exitInterrupted)
		p.expectResident()
	})
}

// stateOf is the state of a process, as ps shows it.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	must(t, err)
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:1]
}

// A pager has the terminal, as a child and on the caller's side.
func TestTerminalHasPager(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		var lines []string
		for i := range 500 {
			lines = append(lines, fmt.Sprintf("line %d of the file", i+1))
		}
		must(t, os.WriteFile(p.path("long"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		p.run("say")
		term := p.newTerminal()
		before := term.modes()
		commands := map[string]string{"$run pager less long": `(?m)after the pager$`}
		if p.kind.isGo() {
			commands["$run execute less long"] = `(?m)executed: 0$`
		}
		for command, after := range commands {
			term.clear()
			term.enter(command)
			term.waitFor(`\Aline 1 of the file\n`)
			term.keys("G")
			term.waitFor(`line 500 of the file\n`)
			term.keys("g")
			term.waitFor(`\Aline 1 of the file\n`)
			term.enter("/line 250")
			term.waitFor(`(?m)line 250 of`)
			term.keys("q")
			term.waitFor(after)
			if modes := term.modes(); modes != before {
				t.Errorf("%s leaves the terminal with\n%s\nnot\n%s", command, modes, before)
			}
		}
		p.expectResident()
	})
}

// The terminal is as it was when a program that has changed it is killed.
func TestTerminalIsRestored(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say")
		term := p.newTerminal()
		before := term.modes()
		term.enter("$run raw")
		pid := number(term.waitFor(`(?m)raw (\d+)`)[1])
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		term.waitFor(`(?m)prompt> *\z`)
		if after := term.modes(); after != before {
			t.Errorf("the terminal has\n%s\nnot\n%s", after, before)
		}
	})
}
