package resident_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

// expectStays expects that a run leaves the resident as it was, with nothing running.
func (p *place) expectStays(test func()) {
	p.t.Helper()
	p.run("say")
	before := p.waitRuns(1)
	test()
	if after := p.waitIdle(); after.PID != before.PID {
		p.t.Errorf("the resident is %d, and it was %d", after.PID, before.PID)
	}
	p.expect(p.run("say", "again"), "again\n", 0)
}

// A program that fails badly does so for itself, with the code and words of a plain run.
func TestPanic(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.expectStays(func() {
			got, plain := p.run("panic"), p.plain("panic")
			if got.code != plain.code || got.output != "" || !strings.Contains(got.errors, "as it was told") {
				t.Errorf("%s, and plainly %s", got, plain)
			}
			if p.kind.isGo() && (got.code != 2 || !strings.Contains(got.errors, "goroutine ")) {
				t.Errorf("no trace: %s", got)
			}
		})
	})
}

func TestExitCodes(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.expectStays(func() {
			for _, code := range []int{0, 1, 2, 125, 126, 127, 128, 130, 255} {
				p.expect(p.run("leave", strconv.Itoa(code)), "", code)
			}
		})
	})
}

// A program that ends its process is lost with it, where that is the resident's, and its
// caller is told so. The next one has a resident again.
func TestExitOfTheProcess(t *testing.T) {
	eachKind(t, supervised, func(t *testing.T, p *place) {
		p.expectStays(func() { p.expect(p.run("exit", "7"), "", 7) })
	})
	eachKind(t, concurrent, func(t *testing.T, p *place) {
		p.run("say")
		before := p.waitRuns(1)
		for _, arguments := range [][]string{{"exit", "7"}, {"deep"}, {"signal", "9"}} {
			r := p.run(arguments...)
			if r.code != 125 || !strings.Contains(r.errors, "nearcall-run: ") {
				t.Errorf("%q: %s", arguments, r)
			}
			p.expect(p.run("say", "again"), "again\n", 0)
			if after := p.waitIdle(); after.PID == before.PID {
				t.Error("the resident is the one that has ended")
			}
		}
	})
}

// A panic that only the process can catch is the run's, where the process is.
func TestDeepPanic(t *testing.T) {
	eachKind(t, func(k kind) bool { return supervised(k) && k.isGo() }, func(t *testing.T, p *place) {
		p.expectStays(func() {
			if r := p.run("deep"); r.code != 2 || !strings.Contains(r.errors, "in a goroutine") {
				t.Error(r)
			}
		})
	})
}

func TestClosedOutput(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.expectStays(func() {
			for range 3 {
				p.expect(p.run("close"), "before\n", 3)
			}
		})
	})
}

// Goroutines that stay do not keep the caller, and what they write is nobody's.
func TestGoroutinesLeftBehind(t *testing.T) {
	eachKind(t, isGo, func(t *testing.T, p *place) {
		p.expectStays(func() {
			for range 5 {
				// What one writes while the run ends may still come.
				if r := p.run("routine", "10"); r.code != 0 || !strings.HasPrefix(r.output, "routines\n") {
					t.Error(r)
				}
				p.expect(p.run("say", "clean"), "clean\n", 0)
			}
		})
	})
}

// A child that stays keeps the output as it does plainly: the run ends, and the pipe when
// the child does.
func TestChildLeftBehind(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.expectStays(func() {
			file := p.path("go on")
			reader, writer, err := os.Pipe()
			must(t, err)
			defer func() { _ = reader.Close() }()
			command := p.command("child", file)
			// The child has it too, and nothing is to wait for that here.
			command.Stdout, command.Stderr = writer, os.Stderr
			r := finish(t, command)
			must(t, writer.Close())
			if r.code != 0 {
				t.Error(r)
			}
			p.expect(p.run("say", "meanwhile"), "meanwhile\n", 0)
			lines := bufio.NewReader(reader)
			if text, err := lines.ReadString('\n'); text != "early\n" {
				t.Fatalf("%q, %v", text, err)
			}
			must(t, os.WriteFile(file, nil, 0o600))
			if rest, err := io.ReadAll(lines); string(rest) != "late\n" {
				t.Errorf("%q, %v", rest, err)
			}
		})
	})
}

// The process of a run is killed by somebody.
func TestRunIsKilled(t *testing.T) {
	eachKind(t, supervised, func(t *testing.T, p *place) {
		p.expectStays(func() {
			u := p.begin(p.command("wait"))
			must(t, syscall.Kill(u.pid, syscall.SIGKILL))
			if r := u.wait(); r.signal != syscall.SIGKILL {
				t.Error(r)
			}
		})
	})
	eachKind(t, concurrent, func(t *testing.T, p *place) {
		p.run("say")
		command := p.command("wait")
		var said bytes.Buffer
		command.Stderr = &said
		u := p.begin(command)
		must(t, syscall.Kill(u.pid, syscall.SIGKILL))
		if r := u.wait(); r.code != codeKilled || said.Len() == 0 {
			t.Errorf("%s, errors %q", r, said.String())
		}
	})
}

// The supervisor of a run is killed: the run goes on to its own end, signals reach it, and
// another resident starts meanwhile.
func TestSupervisorIsKilled(t *testing.T) {
	eachKind(t, supervised, func(t *testing.T, p *place) {
		for _, code := range []string{"0", "9"} {
			p.run("say")
			before := p.waitIdle()
			file := p.path("go on " + code)
			u := p.begin(p.command("linger", code, file))
			var interrupted *underway
			if p.kind.concurrent {
				interrupted = p.begin(p.command("wait"))
			}
			must(t, syscall.Kill(before.PID, syscall.SIGKILL))
			p.waitAnother(before.PID)
			if interrupted != nil {
				interrupted.signal(syscall.SIGTERM)
				interrupted.wait()
			}
			must(t, os.WriteFile(file, nil, 0o600))
			if text := u.line("the run's report"); !strings.HasPrefix(text, "{") {
				t.Errorf("%q", text)
			}
			if r := u.wait(); strconv.Itoa(r.code) != code {
				t.Errorf("%s, not %s", r, code)
			}
		}
	})
}

// The supervisor of a run is stopped: who has ended is not waited for.
func TestSupervisorIsStopped(t *testing.T) {
	eachKind(t, supervised, func(t *testing.T, p *place) {
		p.run("say")
		supervisor := p.waitIdle().PID
		for _, number := range []syscall.Signal{syscall.SIGKILL, 0} {
			file := p.path("go on " + number.String())
			u := p.begin(p.command("linger", "7", file))
			must(t, syscall.Kill(supervisor, syscall.SIGSTOP))
			processes.WaitFor(t, "the supervisor to be stopped", settleTimeout, func() bool { return stateOf(t, supervisor) == "T" })
			want := 0
			if number == 0 {
				want = 7
				must(t, os.WriteFile(file, nil, 0o600))
			} else {
				must(t, syscall.Kill(u.pid, number))
			}
			r := u.waitLauncher()
			must(t, syscall.Kill(supervisor, syscall.SIGCONT))
			if r.signal != number || r.code != want && number == 0 {
				t.Errorf("%s, not signal %d or code %d", r, number, want)
			}
		}
	})
}

// A resident that is stopped is not waited for, and holds nothing of its callers, who read the
// output of a command to its end.
func TestResidentIsStopped(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say")
		resident := p.waitIdle().PID
		must(t, syscall.Kill(resident, syscall.SIGSTOP))
		processes.WaitFor(t, "the resident to be stopped", settleTimeout, func() bool { return stateOf(t, resident) == "T" })
		r := p.shell(`for i in 1 2 3 4 5; do echo "[$($run say plainly)]"; done; NEARCALL_RUN_DEBUG=1 $run leave 3 2>&1; echo $?`)
		must(t, syscall.Kill(resident, syscall.SIGCONT))
		want := strings.Repeat("[plainly]\n", 5) + fmt.Sprintf("nearcall-run: %s runs plainly: its resident is stopped; kill -CONT %d lets it go on\n3\n", p.program, resident)
		if r.output != want || r.took > answerTimeout {
			t.Errorf("after %s: %s, not %s", r.took, r, want)
		}
		p.expect(p.run("say", "again"), "again\n", 0)
		if after := p.waitRuns(2); after.Runs != 2 {
			t.Errorf("the resident has had %d runs, not 2", after.Runs)
		}
	})
}

// waitAnother runs the program until another resident than the one that was killed takes it.
// Before, processes that it left behind may.
func (p *place) waitAnother(killed int) {
	p.t.Helper()
	processes.WaitFor(p.t, "another resident", settleTimeout, func() bool {
		r := p.run("say", "another")
		p.expect(r, "another\n", 0)
		if r.took > answerTimeout*3/4 { // it did not wait for one that is no more
			p.t.Errorf("a run took %s", r.took)
		}
		a, err := ask(p.socket(), kindStatus)
		return err == nil && a.PID != killed
	})
}

// A run that waits for another one until its launcher withdraws is run plainly, and nobody
// keeps its output open.
func TestWithdrawnRun(t *testing.T) {
	eachKind(t, func(k kind) bool { return k.name == "serial" }, func(t *testing.T, p *place) {
		p.run("say")
		file := p.path("go on")
		u := p.begin(p.command("linger", "0", file))
		r := p.run("report", "4")
		if s := parse(t, r.output, 0); s.Resident != 0 || r.code != 4 || r.took < answerTimeout {
			t.Errorf("after %s: %s", r.took, r)
		}
		must(t, os.WriteFile(file, nil, 0o600))
		u.wait()
		p.expect(p.run("say", "again"), "again\n", 0)
		if a := p.waitRuns(3); a.Runs != 3 {
			t.Errorf("%+v", a)
		}
	})
}

// Runs leave no descriptors behind in the resident.
func TestNoDescriptorsAreLeft(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		for range 20 {
			p.run("say")
		}
		count := func(pid int) int {
			entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
			must(t, err)
			return len(entries)
		}
		pid := p.waitIdle().PID
		before := count(pid)
		for range 50 {
			p.run("report", "3")
		}
		p.waitIdle()
		processes.WaitFor(t, "descriptors to be closed", 5*time.Second, func() bool { return count(pid) <= before })
	})
}
