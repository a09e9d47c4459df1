package resident_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/resident/internal/testlauncher"
)

// withoutPower is a launcher, and with it the resident that it starts, that may not
// raise its limits though it is root.
func withoutPower(limits string) *exec.Cmd {
	return exec.Command("setpriv", "--bounding-set=-sys_resource", "sh", "-c", limits+"; exec "+os.Args[0]+" command sh -c 'ulimit -c; ulimit -f'")
}

// Where runs share a process, a caller with other limits runs the program itself.
func TestSharedLimits(t *testing.T) {
	for _, mode := range []string{"serial", "concurrent"} {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			startResident(t, path)
			for limits, want := range map[string]int{"ulimit -c 8": codePlainly, "ulimit -Sn 100": 0, ":": 0} {
				got, code := launchWith(t, exec.Command("sh", "-c", limits+"; exec "+os.Args[0]+" pid"), path, nil)
				if code != want {
					t.Errorf("after %s: code %d, %q", limits, code, got)
				}
			}
		})
	}
}

// A limit that cannot be raised costs no worker.
func TestLimitsThatCannotBeRaised(t *testing.T) {
	path := program(t, "pool")
	if got, code := launchWith(t, withoutPower("ulimit -c 8"), path, nil); code != 0 {
		t.Fatalf("code %d, %q", code, got)
	}
	await(t, "processes that wait", func() bool { return status(t, path).Waiting == 2 })
	before := children(t, status(t, path).ProcessID)
	got, code := launchWith(t, exec.Command("sh", "-c", "ulimit -c 16; ulimit -f 1000; exec "+os.Args[0]+" pid"), path, nil)
	if code != codePlainly || !strings.Contains(got, "limit") {
		t.Errorf("code %d, %q", code, got)
	}
	if after := children(t, status(t, path).ProcessID); !slices.Equal(after, before) {
		t.Errorf("workers %d, and before %d", after, before)
	}
	if got, code := launchWith(t, withoutPower("ulimit -c 4"), path, nil); code != 0 || !strings.HasPrefix(got, "4\nunlimited") {
		t.Errorf("code %d, %q", code, got)
	}
}

// Limits that a serial run sets are its own.
func TestLimitsOfTheLastRun(t *testing.T) {
	for _, power := range []bool{true, false} {
		path := program(t, "serial")
		start := []string{"setpriv", "--bounding-set=-sys_resource", os.Args[0], "pid"}
		if power {
			start = start[2:]
		}
		if got, code := launchWith(t, exec.Command(start[0], start[1:]...), path, nil); code != 0 {
			t.Fatalf("code %d, %q", code, got)
		}
		for _, kind := range []string{"soft", "hard"} {
			run(t, testlauncher.Launch{Program: path, Args: []string{"limit", kind, "4096"}})
			got, stderr, outcome := run(t, testlauncher.Launch{Program: path, Args: []string{"command", "sh", "-c", "ulimit -f"}})
			if got != "unlimited\n" {
				t.Errorf("power %v, after %s limits files have at most %q blocks: %s %+v", power, kind, got, stderr, outcome)
			}
		}
	}
}
