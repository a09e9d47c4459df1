package resident_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// A seen is what the test program reports.
type seen struct {
	Args, OSArgs []string
	Dir, OSDir   string
	Umask        int
	Who, OSWho   string
	Variables    int
	Peer         int
	Resident     bool
}

func parse(t *testing.T, line string) seen {
	t.Helper()
	var s seen
	must(t, json.Unmarshal([]byte(line), &s))
	return s
}

// A caller is one whose run is known by all that it gives it.
type caller struct {
	launch testlauncher.Launch
	want   seen
}

// callerOf makes one. What belongs to the process is the run's own but in mode Concurrent.
func callerOf(t *testing.T, mode, path, who string, umask int, command string) caller {
	t.Helper()
	t.Setenv("WHO", "starter")
	startResident(t, path)
	c := caller{launch: testlauncher.Launch{
		Program: path, Args: []string{command, "of", who}, Env: []string{"WHO=" + who, "PATH=" + os.Getenv("PATH")}, Dir: t.TempDir(), Umask: umask,
	}}
	arguments := append([]string{path}, c.launch.Args...)
	c.want = seen{
		Args: arguments, OSArgs: arguments, Dir: c.launch.Dir, OSDir: c.launch.Dir, Umask: umask,
		Who: who, OSWho: who, Variables: 2, Peer: os.Getpid(), Resident: true,
	}
	if mode == "concurrent" {
		c.want.OSArgs, c.want.OSDir, c.want.OSWho = []string{path, "--nearcall-resident"}, "/", "starter"
	}
	return c
}

func (c caller) check(t *testing.T, line string) {
	t.Helper()
	if got := parse(t, line); !reflect.DeepEqual(got, c.want) {
		t.Errorf("a run sees\n%+v, want\n%+v", got, c.want)
	}
}

// A run has the caller's arguments, environment, directory, umask and output.
func TestRunSeesItsCaller(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		for i, who := range []string{"one", "two", "three"} {
			c := callerOf(t, mode, path, who, 0o20+i, "report")
			got, _, outcome := run(t, c.launch)
			expect(t, outcome, testlauncher.Outcome{})
			c.check(t, strings.TrimSpace(got))
		}
	})
}

// Nothing of a run is another's that goes on at the same time, or, in mode Serial, that
// waits at the same time.
func TestTwoAtOnceDoNotMix(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		one, two := callerOf(t, mode, path, "one", 0o027, "twice"), callerOf(t, mode, path, "two", 0o002, "twice")
		first := begin(t, one.launch)
		one.check(t, first.line())
		began := make(chan *begun, 1)
		go func() { began <- begin(t, two.launch) }()
		if mode != "serial" {
			second := <-began
			two.check(t, second.line())
			began <- second
		}
		must(t, first.input.Close())
		one.check(t, first.line())
		expect(t, first.wait(), testlauncher.Outcome{})
		second := <-began
		if mode == "serial" {
			two.check(t, second.line())
		}
		must(t, second.input.Close())
		two.check(t, second.line())
		expect(t, second.wait(), testlauncher.Outcome{})
	})
}

// Files that a run makes, and commands that it starts, have the caller's umask.
func TestUmask(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		for umask, want := range map[int]os.FileMode{0o027: 0o640, 0o002: 0o664, 0o077: 0o600} {
			c := callerOf(t, mode, path, "somebody", umask, "umask")
			got, stderr, _ := run(t, c.launch)
			if stderr != "" || got != "00"+octal(umask)+"\n" && got != "0"+octal(umask)+"\n" {
				t.Errorf("a command's umask is %q, want %s; %s", got, octal(umask), stderr)
			}
			info, err := os.Stat(filepath.Join(c.launch.Dir, "made"))
			must(t, err)
			if info.Mode() != want {
				t.Errorf("a file has mode %v, want %v", info.Mode(), want)
			}
		}
	})
}

func octal(n int) string {
	return string([]byte{byte('0' + n>>6&7), byte('0' + n>>3&7), byte('0' + n&7)})
}

// Input arrives, also on descriptors that do not block and with much of it.
func TestInput(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		for _, blocking := range []bool{true, false} {
			text := strings.Repeat("all that is said\n", 50_000)
			r, w, err := os.Pipe()
			must(t, err)
			must(t, setNonblock(r, !blocking))
			go func() {
				_, _ = w.WriteString(text)
				_ = w.Close()
			}()
			l := testlauncher.Launch{Program: path, Args: []string{"cat"}}
			l.Files[0] = r
			got, stderr, outcome := run(t, l)
			if expect(t, outcome, testlauncher.Outcome{}); got != text {
				t.Errorf("blocking %v: %d bytes of %d came back; %s", blocking, len(got), len(text), stderr)
			}
			must(t, r.Close())
		}
	})
}

func setNonblock(file *os.File, nonblocking bool) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) { failure = unix.SetNonblock(int(fd), nonblocking) })
	if failure != nil {
		return failure
	}
	return err
}

// A resident leaves the modes of what it was passed as they were: they are the shell's too.
func TestModesOfDescriptorsStay(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		r, w, err := os.Pipe()
		must(t, err)
		must(t, setNonblock(r, false))
		must(t, setNonblock(w, false))
		must(t, w.Close())
		l := testlauncher.Launch{Program: path, Args: []string{"cat"}}
		l.Files[0] = r
		run(t, l)
		raw, err := r.SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) {
			if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("the input has flags %#x now, %v", flags, err)
			}
		}))
	})
}

// Output to a file goes on where the last run ended.
func TestOutputToFile(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		file, err := os.Create(filepath.Join(t.TempDir(), "output"))
		must(t, err)
		l := testlauncher.Launch{Program: path, Args: []string{"command", "echo", "line"}, Env: os.Environ()}
		l.Files[1] = file
		for range 3 {
			outcome, err := l.Run()
			must(t, err)
			expect(t, outcome, testlauncher.Outcome{})
		}
		text, err := os.ReadFile(file.Name())
		must(t, err)
		if string(text) != "line\nline\nline\n" {
			t.Errorf("the file has %q", text)
		}
	})
}

// Nobody reads the output any more: a program that has a process for itself is ended
// by SIGPIPE, as usual; otherwise it hears of it.
func TestBrokenPipe(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		want := testlauncher.Outcome{Code: 1}
		if mode == "pool" {
			want = testlauncher.Outcome{Signal: syscall.SIGPIPE}
		}
		b := begin(t, testlauncher.Launch{Program: path, Args: []string{"write"}})
		b.line()
		must(t, b.reader.Close())
		expect(t, b.wait(), want)
	})
}

// A large request comes in pieces.
func TestLargeRequest(t *testing.T) {
	eachMode(t, func(t *testing.T, mode, path string) {
		c := callerOf(t, mode, path, "somebody", 0o022, "report")
		c.launch.Args = append(c.launch.Args, strings.Repeat("x", 3<<20))
		c.want.Args = append([]string{path}, c.launch.Args...)
		if mode != "concurrent" {
			c.want.OSArgs = c.want.Args
		}
		got, _, outcome := run(t, c.launch)
		expect(t, outcome, testlauncher.Outcome{})
		c.check(t, strings.TrimSpace(got))
	})
}

// A command that a run starts has the caller's streams, and no other descriptors.
func TestCommandsInheritNothingElse(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		got, stderr, _ := run(t, testlauncher.Launch{Program: path, Args: []string{"command", "sh", "-c", "ls /proc/$$/fd"}})
		if got != "0\n1\n2\n" {
			t.Errorf("a command has the descriptors %q; %s", got, stderr)
		}
	})
}

// A command is found in the caller's PATH and directory, and has its environment.
func TestCommandIsTheCallers(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		directory := t.TempDir()
		tools := filepath.Join(directory, "tools")
		must(t, os.Mkdir(tools, 0o700))
		must(t, os.WriteFile(filepath.Join(tools, "mytool"), []byte("#!/bin/sh\necho $WHO in $PWD: $*\n"), 0o700))
		for _, searched := range []string{tools, "tools"} {
			got, stderr, _ := run(t, testlauncher.Launch{
				Program: path, Args: []string{"command", "mytool", "a"}, Env: []string{"WHO=me", "PATH=" + searched}, Dir: directory,
			})
			if want := "me in " + directory + ": a\n"; got != want {
				t.Errorf("it says %q, want %q; %s", got, want, stderr)
			}
		}
		_, stderr, outcome := run(t, testlauncher.Launch{Program: path, Args: []string{"command", "mytool"}, Env: []string{"PATH=/bin"}, Dir: directory})
		if expect(t, outcome, testlauncher.Outcome{Code: 1}); !strings.Contains(stderr, exec.ErrNotFound.Error()) {
			t.Errorf("a command that is not there: %q", stderr)
		}
	})
}

// The caller's directory is found even when it has no name any more, and no path
// leads out of its Root.
func TestDirectory(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		directory := filepath.Join(t.TempDir(), "inner")
		must(t, os.Mkdir(directory, 0o700))
		must(t, os.WriteFile(filepath.Join(directory, "file"), []byte("here"), 0o600))
		must(t, os.WriteFile(filepath.Join(directory, "../outside"), []byte("outside"), 0o600))
		l := testlauncher.Launch{Program: path, Args: []string{"root", "file"}, Dir: directory}
		if got, stderr, _ := run(t, l); got != "here" {
			t.Errorf("it reads %q; %s", got, stderr)
		}
		l.Args[1] = "../outside"
		if got, stderr, outcome := run(t, l); got != "" || outcome.Code != 1 {
			t.Errorf("it reads %q; %s", got, stderr)
		}
		l.Args[1], l.Unnamed = "file", true
		if got, stderr, _ := run(t, l); got != "here" {
			t.Errorf("without a name it reads %q; %s", got, stderr)
		}
		l.Args = []string{"command", "cat", "file"}
		if got, stderr, _ := run(t, l); got != "here" {
			t.Errorf("without a name a command reads %q; %s", got, stderr)
		}
	})
}
