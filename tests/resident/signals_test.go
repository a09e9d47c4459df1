package resident_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nearcall/nearcall/tests/processes"
)

// An underway is a run that has said that it is there.
type underway struct {
	p       *place
	command *exec.Cmd
	output  *bufio.Reader
	pid     int // of the process that runs it
}

// begin starts a run whose first line ends with its process, and waits for that.
func (p *place) begin(command *exec.Cmd) *underway {
	p.t.Helper()
	output, err := command.StdoutPipe()
	must(p.t, err)
	must(p.t, command.Start())
	u := &underway{p: p, command: command, output: bufio.NewReader(output)}
	text := u.line("a run to say that it waits")
	if _, err := fmt.Sscanf(text, "waiting %d", &u.pid); err != nil {
		p.t.Fatalf("%q: %v", text, err)
	}
	return u
}

// line reads one that the run prints.
func (u *underway) line(what string) string {
	u.p.t.Helper()
	return processes.Within(u.p.t, what, settleTimeout, func() string {
		text, _ := u.output.ReadString('\n') // what has ended instead has printed no line
		return text
	})
}

func (u *underway) signal(number syscall.Signal) {
	u.p.t.Helper()
	must(u.p.t, u.command.Process.Signal(number))
}

// waitLauncher waits for the end of the launcher.
func (u *underway) waitLauncher() result {
	u.p.t.Helper()
	err := processes.Within(u.p.t, "the end of "+u.command.String(), settleTimeout, u.command.Wait)
	return ended(u.p.t, err, u.command)
}

// wait waits for the end of the launcher, and of the process where that is the run's own.
func (u *underway) wait() result {
	u.p.t.Helper()
	r := u.waitLauncher()
	if u.p.kind.own {
		processes.WaitFor(u.p.t, "the run's process to end", settleTimeout, func() bool { return !u.alive() })
	}
	return r
}

func (u *underway) alive() bool {
	return len(commandLine(u.pid)) > 0 // who has ended has none, whether reaped or not
}

// What ends a program ends the launcher in the same way.
func TestSignalsEndTheRun(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		for _, number := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			u := p.begin(p.command("wait"))
			u.signal(number)
			got := u.wait()
			u = p.begin(p.plainCommand("wait"))
			u.signal(number)
			if plain := u.wait(); got != plain {
				t.Errorf("%s: %s, and plainly %s", number, got, plain)
			}
		}
		p.waitRuns(3)
	})
}

func (p *place) plainCommand(arguments ...string) *exec.Cmd {
	command := p.command(arguments...)
	command.Path, command.Args = p.program, append([]string{p.program}, arguments...)
	return command
}

// A signal that ends the process is what the caller's parent sees.
func TestExitBySignal(t *testing.T) {
	eachKind(t, own, func(t *testing.T, p *place) {
		for _, number := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV, syscall.SIGABRT} {
			got, plain := p.run("signal", fmt.Sprint(int(number))), p.plain("signal", fmt.Sprint(int(number)))
			if got.signal != plain.signal || got.code != plain.code {
				t.Errorf("%s: %s, and plainly %s", number, got, plain)
			}
		}
	})
}

// The process is gone when somebody has killed its launcher.
func TestLauncherIsKilled(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		u := p.begin(p.command("wait"))
		u.signal(syscall.SIGKILL)
		if r := u.wait(); r.signal != syscall.SIGKILL {
			t.Error(r)
		}
		p.waitIdle()
	})
}

func TestTimeout(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say")
		r := p.shell(`timeout 0.3 $run wait; echo $?; timeout -s KILL 0.3 $run wait; echo $?`)
		lines := strings.Fields(r.output)
		if len(lines) != 6 || lines[2] != "124" || lines[5] != "137" {
			t.Error(r)
		}
		p.waitIdle()
	})
}

// A program that was to ignore SIGHUP goes on when it arrives, as it does plainly.
func TestNohup(t *testing.T) {
	eachKind(t, own, func(t *testing.T, p *place) {
		file := p.path("go on")
		command := p.command("linger", "7", file)
		command.Args = append([]string{"nohup"}, append([]string{launcher}, command.Args[1:]...)...)
		command.Path = "/usr/bin/nohup"
		u := p.begin(command)
		u.signal(syscall.SIGHUP)
		must(t, os.WriteFile(file, nil, 0o600))
		if text := u.line("the run to go on"); parse(t, text, 0).Resident == 0 {
			t.Errorf("%q", text)
		}
		if r := u.wait(); r.code != 7 {
			t.Error(r)
		}
	})
}

// Descriptors that are missing make the run a plain one.
func TestMissingStreams(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say")
		before := p.waitRuns(1)
		r := p.shell(`$run leave 4 <&-; echo $?; $run leave 5 >&-; echo $?; $run leave 6 2>&-; echo $?; $run report 7 <&-; echo $?`)
		plain := p.shell(`$run leave 4 <&-; echo $?; $run leave 5 >&-; echo $?; $run leave 6 2>&-; echo $?; $run report 7 <&-; echo $?`, "NEARCALL_NO_RESIDENT=1")
		if strip(r.output) != strip(plain.output) || !strings.HasPrefix(r.output, "4\n5\n6\n") {
			t.Errorf("%s, and plainly %s", r, plain)
		}
		if after := p.waitIdle(); after.Runs != before.Runs {
			t.Errorf("the resident had %d runs, and has %d", before.Runs, after.Runs)
		}
	})
}

// strip removes reports, which no two runs have alike.
func strip(output string) string {
	var kept []string
	for _, line := range strings.Split(output, "\n") {
		if !strings.HasPrefix(line, "{") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
