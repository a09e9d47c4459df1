package resident_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

// next is what replaces a program of this kind, with another version.
func (k kind) next() string {
	if k.isGo() {
		return "program-2"
	}
	return k.source + "2"
}

func (p *place) report() state {
	p.t.Helper()
	r := p.run("report", "0")
	return parse(p.t, r.output, 0)
}

// A program that is replaced while it runs: new runs are of the new one, those that run
// end as they would have, and the old resident leaves with the last of them.
func TestProgramIsReplaced(t *testing.T) {
	eachKind(t, atOnce, func(t *testing.T, p *place) {
		old := p.report()
		file := p.path("go on")
		u := p.begin(p.command("linger", "3", file))
		p.install(p.kind.next())
		fresh := p.report()
		if old.Version != "1" || fresh.Version != "2" || fresh.Resident == 0 || fresh.Resident == old.Resident {
			t.Errorf("version %s of %d, then %s of %d", old.Version, old.Resident, fresh.Version, fresh.Resident)
		}
		must(t, os.WriteFile(file, nil, 0o600))
		if s := parse(t, u.line("the old run's report"), 0); s.Version != "1" || s.Resident != old.Resident {
			t.Errorf("the old run says %+v", s)
		}
		if r := u.wait(); r.code != 3 {
			t.Error(r)
		}
		p.waitGone(old.Resident)
		p.expectFiles(t, ".lock .log .sock")
		if again := p.report(); again.Resident != fresh.Resident {
			t.Errorf("the resident is %d, and it was %d", again.Resident, fresh.Resident)
		}
	})
}

func (p *place) waitGone(pid int) {
	p.t.Helper()
	processes.WaitFor(p.t, "the resident to leave", settleTimeout, func() bool { return len(commandLine(pid)) == 0 })
}

// The resident leaves when a library is replaced that the program has loaded, and that no module is.
func TestLibraryIsReplaced(t *testing.T) {
	p := newPlace(t, kinds()[len(kinds())-1])
	library, source := p.path("library.so"), filepath.Join(root, "build/lib/libnearcall.so")
	must(t, processes.Run("cp", "-L", source, library))
	p.env = append(p.env, "PROGRAM_LIBRARY="+library)
	old := p.report()
	if old.Resident == 0 || p.report().Resident != old.Resident {
		t.Fatal("nothing is resident")
	}
	must(t, processes.Run("cp", "-L", source, library+".new"))
	must(t, os.Rename(library+".new", library))
	p.waitGone(old.Resident)
	if fresh := p.report(); fresh.Resident == 0 || fresh.Resident == old.Resident {
		t.Errorf("the resident is %d, and it was %d", fresh.Resident, old.Resident)
	}
}

// The resident leaves when its program's file is touched or removed, without being asked.
func TestOutdatedResidentLeaves(t *testing.T) {
	changes := map[string]func(name string) error{
		"touched": func(name string) error { return os.Chtimes(name, time.Now(), time.Now()) },
		"removed": os.Remove,
		"mode":    func(name string) error { return os.Chmod(name, 0o750) },
	}
	eachKind(t, all, func(t *testing.T, p *place) {
		for name, change := range changes {
			p.install(p.kind.source)
			pid := p.report().Resident
			must(t, change(p.program))
			p.waitGone(pid)
			names, _ := filepath.Glob(filepath.Join(p.residents(), "*"))
			if len(names) > 0 {
				t.Errorf("%s: it leaves %q", name, names)
			}
		}
	})
}

// While the program is replaced again and again, each run is of one that was there after
// the run had begun.
func TestProgramIsReplacedWhileItRuns(t *testing.T) {
	eachKind(t, ownGo, func(t *testing.T, p *place) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 10 {
				p.install([]string{"program-2", "program-1"}[i%2])
				time.Sleep(20 * time.Millisecond) // so that runs meet each of them
			}
		}()
		for running := true; running; {
			p.expect(p.run("say", "right"), "right\n", 0)
			select {
			case <-done:
				running = false
			default:
			}
		}
		if s := p.report(); s.Version != "1" || s.Resident == 0 {
			t.Errorf("%+v", s)
		}
		processes.WaitFor(t, "all others to leave", settleTimeout, func() bool { return len(p.sockets()) == 1 })
	})
}

// The resident leaves when nothing ran for its time, and not before.
func TestIdle(t *testing.T) {
	const idle = 1500 * time.Millisecond
	eachKind(t, isGo, func(t *testing.T, p *place) {
		p.env = append(p.env, "PROGRAM_IDLE="+idle.String())
		pid := p.report().Resident
		file := p.path("go on")
		u := p.begin(p.command("linger", "0", file))
		time.Sleep(2 * idle) // is longer than a resident stays that has nothing to do
		if a := p.status(); a.PID != pid || a.Running != 1 {
			t.Errorf("%+v", a)
		}
		must(t, os.WriteFile(file, nil, 0o600))
		u.wait()
		p.waitGone(pid)
		p.expectFiles(t, ".lock .log")
		if s := p.report(); s.Resident == 0 || s.Resident == pid {
			t.Errorf("%+v after %d", s, pid)
		}
	})
}

// A resident that is told to stop finishes what runs. The next run starts another.
func TestStop(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		for _, stop := range []func(pid int){
			func(int) { p.stop() },
			func(pid int) { must(t, syscall.Kill(pid, syscall.SIGTERM)) },
		} {
			pid := p.report().Resident
			file := p.path("go on")
			u := p.begin(p.command("linger", "5", file))
			stop(pid)
			processes.WaitFor(t, "the socket to be removed", settleTimeout, func() bool { return len(p.sockets()) == 0 })
			if s := p.report(); s.Resident == 0 || s.Resident == pid {
				t.Errorf("%+v after %d", s, pid)
			}
			must(t, os.WriteFile(file, nil, 0o600))
			if r := u.wait(); r.code != 5 {
				t.Error(r)
			}
			p.waitGone(pid)
			must(t, os.Remove(file))
		}
	})
}

func (p *place) stop() {
	p.t.Helper()
	a, err := ask(p.socket(), kindStop)
	must(p.t, err)
	if !a.Leaving {
		p.t.Errorf("the answer to stop is %+v", a)
	}
}

// A resident that ends again and again while it starts is not started any more.
func TestCrashLoop(t *testing.T) {
	eachKind(t, isGo, func(t *testing.T, p *place) {
		starts := p.path("starts")
		p.env = append(p.env, "PROGRAM_STARTS="+starts, "PROGRAM_CRASH=1")
		for range 6 {
			r := p.run("report", "4")
			if s := parse(t, r.output, 0); s.Resident != 0 || r.code != 4 {
				t.Errorf("%s", r)
			}
		}
		if text, err := os.ReadFile(starts); string(text) != "start\nstart\n" {
			t.Errorf("starts: %q, %v", text, err)
		}
		p.install(p.kind.source)
		p.env = p.env[:len(p.env)-1]
		if s := p.report(); s.Resident == 0 {
			t.Error("the program that was mended is not resident")
		}
	})
}

// A program that knows nothing of residents gets no request, and runs plainly.
func TestProgramThatDoesNotKnow(t *testing.T) {
	p := newPlace(t, kinds()[0])
	must(t, os.Remove(p.program))
	must(t, os.WriteFile(p.program, []byte("#!/bin/sh\n[ \"$1\" = --nearcall-resident ] && exit 2\necho plain \"$@\"\nexit 3\n"), 0o755))
	for range 4 {
		p.expect(p.run("a", "b"), "plain a b\n", 3)
	}
	p.program = "/bin/echo"
	p.expect(p.run("of", "the system"), "of the system\n", 0)
}

// What the resident says itself is in its log.
func TestLog(t *testing.T) {
	eachKind(t, all, func(t *testing.T, p *place) {
		p.run("say")
		names, _ := filepath.Glob(filepath.Join(p.residents(), "*.log"))
		if len(names) != 1 {
			t.Fatalf("logs: %q", names)
		}
		text, err := os.ReadFile(names[0])
		if !strings.Contains(string(text), "a resident starts\n") || strings.Count(string(text), "\n") > 20 {
			t.Errorf("%q, %v", text, err)
		}
	})
}
