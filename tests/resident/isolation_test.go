package resident_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

const alternationsCI = 200

// Two at once, each of which has everything of its own before the other ends and after
// it.
func TestTwoAtOnceHaveTheirOwn(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		first := p.start(p.newCaller(1))
		first.readReport(p, "")
		second := p.start(p.newCaller(2))
		if p.kind.concurrent {
			second.readReport(p, "")
		}
		first.end(p)
		second.end(p)
		if first.states[1].Resident == 0 || first.states[1].Resident != second.states[1].Resident {
			t.Errorf("the residents are %d and %d", first.states[1].Resident, second.states[1].Resident)
		}
	})
}

// A meeting is a run that tells its state, waits for its input's end, and tells it again.
type meeting struct {
	*caller
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
	errors  io.ReadCloser
	states  []state
}

func (p *place) start(c *caller) *meeting {
	p.t.Helper()
	m := &meeting{caller: c, command: c.command(p, "meet")}
	m.command.Stdin = nil
	var err error
	m.input, err = m.command.StdinPipe()
	must(p.t, err)
	output, err := m.command.StdoutPipe()
	must(p.t, err)
	m.output = bufio.NewReader(output)
	m.errors, err = m.command.StderrPipe()
	must(p.t, err)
	must(p.t, m.command.Start())
	return m
}

func (m *meeting) readReport(p *place, input string) {
	p.t.Helper()
	text, err := m.output.ReadString('\n')
	must(p.t, err)
	s := parse(p.t, text, 0)
	m.check(p, s, input)
	m.states = append(m.states, s)
}

// end gives the run its input, and reads what is left of its output.
func (m *meeting) end(p *place) {
	p.t.Helper()
	_, err := io.WriteString(m.input, m.caller.input())
	must(p.t, err)
	must(p.t, m.input.Close())
	if len(m.states) == 0 {
		m.readReport(p, "")
	}
	m.readReport(p, m.caller.input())
	rest, err := io.ReadAll(m.output)
	must(p.t, err)
	if len(rest) > 0 {
		p.t.Errorf("there is more: %q", rest)
	}
	errors, err := io.ReadAll(m.errors)
	must(p.t, err)
	r := ended(p.t, m.command.Wait(), m.command)
	r.errors = string(errors)
	m.checkEnd(p, r, 2)
}

// One after the other, and between them one that changes all that it can.
func TestNothingIsLeftForTheNext(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		count := processes.Setting(t, "NEARCALL_ALTERNATIONS", alternationsCI)
		callers := []*caller{p.newCaller(1), p.newCaller(2), p.newCaller(63)}
		resident := 0
		for i := range count {
			c := callers[i%len(callers)]
			r := finish(t, c.command(p, "report"))
			s := parse(t, r.output, 0)
			c.check(p, s, c.input())
			c.checkEnd(p, r, 1)
			if i == 0 {
				resident = s.Resident
			}
			if s.Resident == 0 || s.Resident != resident {
				t.Fatalf("run %d had resident %d, not %d", i, s.Resident, resident)
			}
			if i%10 == 0 {
				if r := finish(t, callers[0].command(p, "change")); r.code != 0 {
					t.Fatal(r)
				}
			}
			if t.Failed() {
				return
			}
		}
	})
}

// A directory that has gone is the run's nevertheless.
func TestDeletedDirectory(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		c := p.newCaller(1)
		r := p.shell(`mkdir gone && cd gone && rmdir ../gone && $run report 5; echo "code $?"; $run say here; cat where`, "MARK=gone")
		s := parse(t, r.output, 0)
		if s.Where != "" || s.Dir == p.dir || s.Resident == 0 || s.Wrong != "" {
			t.Errorf("%+v", s)
		}
		next := finish(t, c.command(p, "report"))
		c.check(p, parse(t, next.output, 0), c.input())
		if _, err := os.Stat(p.path("gone")); err == nil {
			t.Error("the directory is there again")
		}
	})
}
