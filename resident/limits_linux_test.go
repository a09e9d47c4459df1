package resident_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/wire"
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

// A limit that cannot be raised costs no worker and no run, and the next resident has it:
// one that was first started with less does not keep others from one.
func TestLimitsThatCannotBeRaised(t *testing.T) {
	path := program(t, "pool")
	if got, code := launchWith(t, withoutPower("ulimit -c 8"), path, nil); code != 0 {
		t.Fatalf("code %d, %q", code, got)
	}
	if got, code := launchWith(t, withoutPower("ulimit -c 4"), path, nil); code != 0 || !strings.HasPrefix(got, "4\nunlimited") {
		t.Errorf("code %d, %q", code, got)
	}
	await(t, "processes that wait", func() bool { return status(t, path).Waiting == 2 })
	pid := status(t, path).ProcessID
	higher := func() *exec.Cmd {
		return exec.Command("sh", "-c", "ulimit -c 16; ulimit -f 1000; exec "+os.Args[0]+" pid")
	}
	got, code := launchWith(t, higher(), path, nil)
	if code != codePlainly || !strings.Contains(got, "limit") {
		t.Errorf("code %d, %q", code, got)
	}
	awaitEnd(t, pid)
	if got, code := launchWith(t, higher(), path, nil); code != 0 {
		t.Errorf("by the next resident: code %d, %q", code, got)
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

// crowd puts more descriptors of this user on the way than whoever has filesMost may
// send, until the end that it returns is closed.
func crowd(t *testing.T) (end func()) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	for range 2 {
		must(t, unix.Sendmsg(ends[0], []byte{0}, unix.UnixRights(many(ends[0], filesMost)...), nil, 0))
	}
	return func() { _, _ = unix.Close(ends[0]), unix.Close(ends[1]) }
}

// filesMost is more than other tests have on the way: the kernel counts those of a user
// together. One message carries so many.
const filesMost = 250

// What the kernel refuses to carry between the processes of a resident is tried again,
// and a run of which the supervisor would not know is none.
func TestTooManyDescriptorsOnTheWay(t *testing.T) {
	for _, mode := range []string{"pool", "serial"} {
		t.Run(mode, func(t *testing.T) {
			path := program(t, mode)
			// All have the same power, but the launchers may send before they have as few files.
			limited := func(files int, arguments ...string) *exec.Cmd {
				t.Setenv(variableLower, strconv.Itoa(filesMost))
				return exec.Command("prlimit", append([]string{fmt.Sprintf("--nofile=%d", files), "setpriv", "--bounding-set=-sys_resource,-sys_admin", os.Args[0]}, arguments...)...)
			}
			if got, code := launchWith(t, limited(filesMost, "pid"), path, nil); code != 0 {
				t.Fatalf("code %d, %q", code, got)
			}
			end := crowd(t)
			time.AfterFunc(wire.ResidentSendMs*time.Millisecond/4, end)
			if got, code := launchWith(t, limited(4*filesMost, "exit", "7"), path, nil); code != 7 {
				t.Errorf("for a while there are too many: code %d, %q", code, got)
			}
			defer crowd(t)()
			if got, code := launchWith(t, limited(4*filesMost, "exit", "7"), path, nil); code != codePlainly {
				t.Errorf("there are too many: code %d, %q", code, got)
			}
		})
	}
}
