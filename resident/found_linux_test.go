package resident_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// A start that a launcher has given up, which is when it removes the socket, leaves no
// process behind, and goes on to count as one that came to nothing.
func TestStartThatWasGivenUp(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		warms := filepath.Join(t.TempDir(), "warms")
		must(t, unix.Mkfifo(warms, 0o600))
		t.Setenv("TEST_WARM", warms)
		conn, err := testlauncher.Connect(path, os.Environ())
		must(t, err)
		pid := listenerOf(t, path)
		must(t, os.WriteFile(placeOf(t, path).Lock(), []byte("1\n"+path+"\n"), 0o600))
		must(t, os.Remove(placeOf(t, path).Socket()))
		must(t, conn.Close())
		end, err := os.Open(warms) // all that warm go on
		must(t, err)
		awaitEnd(t, pid)
		must(t, end.Close())
		expectCounted(t, path)
	})
}

// One that has loaded for so long that another one listens in its place leaves it alone.
func TestStartInThePlaceOfAnother(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		var there unix.Stat_t
		must(t, unix.Stat(path, &there))
		must(t, os.WriteFile(placeOf(t, path).Lock(), []byte("1\n"), 0o600))
		conn, err := testlauncher.Connect(path, append(os.Environ(), fmt.Sprintf("NEARCALL_RESIDENT_SOCKET=%d:%d", there.Dev, there.Ino)))
		must(t, err)
		pid := listenerOf(t, path)
		must(t, conn.Close())
		awaitEnd(t, pid)
		if _, err := os.Lstat(placeOf(t, path).Socket()); err != nil {
			t.Errorf("the other's socket: %v", err)
		}
		expectCounted(t, path)
	})
}

// A resident that nobody finds any more does not stay for its idle time.
func TestSocketIsRemoved(t *testing.T) {
	eachMode(t, func(t *testing.T, _, path string) {
		run(t, testlauncher.Launch{Program: path})
		pid := status(t, path).ProcessID
		must(t, os.Remove(placeOf(t, path).Socket()))
		awaitEnd(t, pid)
	})
}

func expectCounted(t *testing.T, path string) {
	t.Helper()
	if text, err := os.ReadFile(placeOf(t, path).Lock()); err != nil || !strings.HasPrefix(string(text), "1\n") {
		t.Errorf("the lock file holds %q, %v", text, err)
	}
}

// listenerOf returns the process that was started as this program's resident.
func listenerOf(t *testing.T, path string) (pid int) {
	t.Helper()
	await(t, "a process of "+path, func() bool {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		must(t, err)
		for _, line := range lines {
			text, _ := os.ReadFile(line)
			environment, _ := os.ReadFile(filepath.Join(filepath.Dir(line), "environ"))
			if strings.HasPrefix(string(text), path+"\x00") && strings.Contains(string(environment), "nearcall-resident\x00") {
				_, err := fmt.Sscanf(line, "/proc/%d/cmdline", &pid)
				return err == nil
			}
		}
		return false
	})
	return pid
}
