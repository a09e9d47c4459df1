package resident_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// A worker that takes a run before its supervisor has seen that a file has changed
// does not run what it has read from it.
func TestWatchedFileChangesUnseen(t *testing.T) {
	watched := filepath.Join(t.TempDir(), "settings")
	must(t, os.WriteFile(watched, []byte("one"), 0o600))
	t.Setenv("TEST_WATCH", watched)
	path := program(t, "pool")
	_, _, outcome := run(t, testlauncher.Launch{Program: path})
	expect(t, outcome, testlauncher.Outcome{})
	await(t, "workers that wait", func() bool { return status(t, path).Waiting == 2 })
	pid := status(t, path).ProcessID
	must(t, unix.Kill(pid, unix.SIGSTOP))
	must(t, os.WriteFile(watched, []byte("two"), 0o600))
	begun, refused, err := testlauncher.Launch{Program: path}.Start()
	must(t, unix.Kill(pid, unix.SIGCONT))
	must(t, err)
	if begun != nil {
		_, _ = begun.Wait()
		t.Error("it ran after the change")
	} else if !strings.Contains(refused.Plainly, watched+" has changed") {
		t.Errorf("after the change: %+v", refused)
	}
	awaitEnd(t, pid)
}

// A directory that is renamed, and a link that leads elsewhere, tell nothing to the files below.
func TestChangesAboveWatchedFiles(t *testing.T) {
	for _, what := range []string{"directory", "link"} {
		t.Run(what, func(t *testing.T) {
			folder := t.TempDir()
			release, current := filepath.Join(folder, "release"), filepath.Join(folder, "current")
			must(t, os.MkdirAll(filepath.Join(release, "etc"), 0o700))
			must(t, os.WriteFile(filepath.Join(release, "etc", "settings"), nil, 0o600))
			must(t, os.Symlink(release, current))
			t.Setenv("TEST_WATCH", filepath.Join(current, "etc", "settings"))
			path := program(t, "pool")
			run(t, testlauncher.Launch{Program: path})
			pid := status(t, path).ProcessID
			if what == "directory" {
				must(t, os.Rename(release, release+".old"))
			} else {
				must(t, os.Remove(current))
			}
			awaitEnd(t, pid)
		})
	}
}

// A program that has taken its first argument away does not take the start of a
// resident for a run.
func TestArgumentsWereTaken(t *testing.T) {
	t.Setenv("TEST_TAKE", "1")
	path := program(t, "pool")
	for pid, code := range map[string]int{"$$": 125, "1": 0} {
		command := exec.Command("sh", "-c", "LISTEN_PID="+pid+` LISTEN_FDS=1 LISTEN_FDNAMES=nearcall-resident exec "$0" --nearcall-resident`, path)
		said, _ := command.CombinedOutput()
		if got := command.ProcessState.ExitCode(); got != code {
			t.Errorf("with LISTEN_PID=%s: code %d, %q", pid, got, said)
		}
		if strings.Contains(string(said), "arguments were read before") != (code != 0) {
			t.Errorf("with LISTEN_PID=%s it says %q", pid, said)
		}
	}
}

// A name with a star means all variables that begin so, there and at the start.
func TestVariablesByTheirBeginning(t *testing.T) {
	t.Setenv("TEST_ENVIRONMENT", "MYAPP_*")
	path := program(t, "pool")
	env := os.Environ()
	conn, err := testlauncher.Connect(path, append(os.Environ(), "MYAPP_ONE=1"))
	must(t, err)
	must(t, conn.Close())
	for variables, name := range map[string]string{
		"":                       "MYAPP_ONE",
		"MYAPP_ONE=2":            "MYAPP_ONE",
		"MYAPP_ONE=1 MYAPP_TWO=": "MYAPP_TWO",
		"MYAPP_ONE=1 MYAPP=2":    "",
	} {
		_, _, outcome := run(t, testlauncher.Launch{Program: path, Env: append(env, strings.Fields(variables)...)})
		if name == "" && outcome.Plainly != "" || !strings.Contains(outcome.Plainly, name) {
			t.Errorf("with %q: %+v", variables, outcome)
		}
	}
}

// Warm is called before a plain run too.
func TestWarmOfAPlainRun(t *testing.T) {
	warmed := filepath.Join(t.TempDir(), "warmed")
	t.Setenv("TEST_WARM", warmed)
	path := program(t, "pool")
	command := exec.Command(path, "command", "echo", "run")
	if said, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != 1 || !strings.Contains(string(said), warmed) {
		t.Errorf("it cannot prepare itself: code %d, %q", command.ProcessState.ExitCode(), said)
	}
	must(t, os.WriteFile(warmed, nil, 0o600))
	said, err := exec.Command(path, "command", "cat", warmed).Output()
	if must(t, err); !strings.HasPrefix(string(said), "warm ") {
		t.Errorf("the run finds %q", said)
	}
}

// 0 is the default, what is negative is never.
func TestIdleTimes(t *testing.T) {
	for idle, ms := range map[string]int{"0": 600_000, "-1s": -1, "2s": 2000} {
		t.Setenv("TEST_IDLE", idle)
		path := program(t, "pool")
		startResident(t, path)
		if got := status(t, path).IdleMS; got != ms {
			t.Errorf("%s is %d ms", idle, got)
		}
	}
}
