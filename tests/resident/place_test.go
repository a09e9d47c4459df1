package resident_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/tests/processes"
)

const settleTimeout = time.Minute

// A kind is a way to be resident.
type kind struct {
	name       string
	source     string // what is copied
	own        bool   // each run has a process of its own
	concurrent bool   // runs at the same time
}

// kinds are all ways there are.
func kinds() []kind {
	return []kind{
		{name: "pool", source: "program-1", own: true, concurrent: true},
		{name: "serial", source: "program-1"},
		{name: "concurrent", source: "program-race", concurrent: true},
		{name: "perl", source: "program.pl", own: true, concurrent: true},
		{name: "python", source: "program.py", own: true, concurrent: true},
	}
}

func (k kind) isGo() bool { return strings.HasPrefix(k.source, "program-") }

// eachKind runs a test for each way that is wanted.
func eachKind(t *testing.T, wanted func(k kind) bool, test func(t *testing.T, p *place)) {
	t.Helper()
	for _, k := range kinds() {
		if wanted(k) {
			t.Run(k.name, func(t *testing.T) { test(t, newPlace(t, k)) })
		}
	}
}

func all(kind) bool          { return true }
func own(k kind) bool        { return k.own }
func shared(k kind) bool     { return !k.own }
func isGo(k kind) bool       { return k.isGo() }
func atOnce(k kind) bool     { return k.concurrent }
func supervised(k kind) bool { return k.name != "concurrent" }
func concurrent(k kind) bool { return !supervised(k) }
func isForked(k kind) bool   { return !k.isGo() }
func ownGo(k kind) bool      { return k.own && k.isGo() }

// A place is a directory with a program in it, and nobody else's residents.
type place struct {
	t       *testing.T
	kind    kind
	dir     string
	program string
	env     []string
}

func newPlace(t *testing.T, k kind) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "nr-")
	must(t, err)
	p := &place{t: t, kind: k, dir: dir, program: filepath.Join(dir, "program-"+k.name)}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Mkdir(p.runtime(), 0o700))
	p.install(k.source)
	p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=xterm", "GORACE=atexit_sleep_ms=0", "LANG=C.UTF-8", "XDG_RUNTIME_DIR=" + p.runtime()}
	t.Cleanup(p.clear)
	return p
}

func (p *place) runtime() string { return filepath.Join(p.dir, "r") }

func (p *place) residents() string { return filepath.Join(p.runtime(), "nearcall-resident") }

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// install puts a program in place of what is there, at once.
func (p *place) install(source string) {
	p.t.Helper()
	fresh := p.program + ".new"
	if p.kind.isGo() {
		// By another process: nobody that this one starts meanwhile has it open for
		// writing.
		must(p.t, processes.Run("cp", filepath.Join(programs, source), fresh))
	} else {
		p.writeScript(fresh, filepath.Join("program", p.kind.source), strings.HasSuffix(source, "2"))
	}
	must(p.t, os.Rename(fresh, p.program))
}

// writeScript writes the script with the interpreter's line, as its next version where
// that is wanted.
func (p *place) writeScript(target, source string, next bool) {
	p.t.Helper()
	text, err := os.ReadFile(source)
	must(p.t, err)
	first := "#!" + filepath.Join(root, "build/venv/bin/python") + "\n"
	if p.kind.name == "perl" {
		blib := filepath.Join(root, "build/perl/blib")
		first = "#!/usr/bin/perl -I" + blib + "/lib -I" + blib + "/arch\n"
	}
	if next {
		text = bytes.Replace(text, []byte("'1'"), []byte("'2'"), 1)
		text = bytes.Replace(text, []byte(`"1"`), []byte(`"2"`), 1)
	}
	must(p.t, os.WriteFile(target, append([]byte(first), text...), 0o755))
}

// clear stops the resident, expects that nothing stays, and removes what does.
func (p *place) clear() {
	if p.t.Failed() {
		p.log()
	}
	for _, path := range p.sockets() {
		_, _ = ask(path, kindStop)
	}
	end := time.Now().Add(settleTimeout)
	for len(p.processes()) > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	for _, left := range p.processes() {
		p.t.Errorf("process %d did not leave: %q", left, commandLine(left))
		_ = syscall.Kill(left, syscall.SIGKILL)
	}
}

// log shows what residents said.
func (p *place) log() {
	names, _ := filepath.Glob(filepath.Join(p.residents(), "*.log"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		p.t.Logf("%s:\n%s", filepath.Base(name), text[max(0, len(text)-4000):])
	}
}

func (p *place) sockets() []string {
	names, _ := filepath.Glob(filepath.Join(p.residents(), "*.sock"))
	return names
}

// processes are those of the place, but not the launchers.
func (p *place) processes() []int { return p.all(p.runs) }

// launchers are those that run now.
func (p *place) launchers() []int {
	return p.all(func(pid int) bool {
		line := commandLine(pid)
		return len(line) > 1 && line[0] == launcher && line[1] == p.program
	})
}

func (p *place) all(wanted func(pid int) bool) (found []int) {
	entries, err := os.ReadDir("/proc")
	must(p.t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && wanted(pid) {
			found = append(found, pid)
		}
	}
	return found
}

func (p *place) runs(pid int) bool {
	line := commandLine(pid)
	if len(line) == 0 || line[0] == launcher || strings.HasPrefix(line[0], "tmux") {
		return false
	}
	return slices.ContainsFunc(line[:min(len(line), 5)], func(part string) bool { return strings.HasPrefix(part, p.dir) })
}

func commandLine(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 })
}

// A result is what a caller sees of a run.
type result struct {
	output, errors string
	code           int
	signal         syscall.Signal
	took           time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("code %d, signal %d, output %q, errors %q", r.code, r.signal, r.output, r.errors)
}

// command is a run by the launcher, in the place's directory.
func (p *place) command(arguments ...string) *exec.Cmd {
	command := exec.Command(launcher, append([]string{p.program}, arguments...)...)
	command.Dir, command.Env = p.dir, slices.Clone(p.env)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// run runs it to its end.
func (p *place) run(arguments ...string) result {
	p.t.Helper()
	return finish(p.t, p.command(arguments...))
}

// plain runs the program without anything between.
func (p *place) plain(arguments ...string) result {
	p.t.Helper()
	command := p.command(arguments...)
	command.Path, command.Args = p.program, append([]string{p.program}, arguments...)
	return finish(p.t, command)
}

// shell runs a script in which $run is the program by its launcher.
func (p *place) shell(script string, more ...string) result {
	p.t.Helper()
	command := exec.Command("bash", "-c", script)
	command.Dir = p.dir
	command.Env = append(slices.Clone(p.env), append([]string{"run=" + launcher + " " + p.program, "program=" + p.program}, more...)...)
	return finish(p.t, command)
}

func finish(t *testing.T, command *exec.Cmd) result {
	t.Helper()
	var output, errs bytes.Buffer
	if command.Stdout == nil {
		command.Stdout = &output
	}
	if command.Stderr == nil {
		command.Stderr = &errs
	}
	start := time.Now()
	r := ended(t, runBounded(t, command), command)
	r.output, r.errors, r.took = output.String(), errs.String(), time.Since(start)
	return r
}

// runBounded is Run that kills what takes too long, and says which that was. Not only the
// test's own goroutine runs commands.
func runBounded(t *testing.T, command *exec.Cmd) error {
	t.Helper()
	command.WaitDelay = settleTimeout // what it has started may hold its output open
	if err := command.Start(); err != nil {
		return err
	}
	defer time.AfterFunc(2*settleTimeout, func() {
		t.Errorf("waited %s in vain for the end of %s", 2*settleTimeout, command)
		_ = command.Process.Kill()
	}).Stop()
	return command.Wait()
}

// ended is how a command ended, after Run or Wait.
func ended(t *testing.T, err error, command *exec.Cmd) result {
	t.Helper()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", command, err)
		return result{code: -1}
	}
	status := command.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return result{code: -1, signal: status.Signal()}
	}
	return result{code: status.ExitStatus()}
}

func (p *place) expect(r result, output string, code int) {
	p.t.Helper()
	if r.output != output || r.code != code || r.signal != 0 {
		p.t.Errorf("%s, not code %d, output %q", r, code, output)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
