package command_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/command"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/spin"
	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// TestPingTellsWhetherCallsAreHot: whether they are is a matter of the machine, what is told of
// them is not.
func TestPingTellsWhetherCallsAreHot(t *testing.T) {
	address := serveDemo(t)
	nearcall(t, "ping", "--shm", "--count", "0", address).expect(t, 2)
	got := nearcall(t, "ping", "--shm", "--json", address).expect(t, 0)
	var found struct {
		Transport string
		Hot       bool
		Asleep    float64 `json:"asleep_share"`
		Calls     int64
		MeanNs    int64   `json:"mean_ns"`
		Slowest   float64 `json:"slowest_window_per_s"`
	}
	must(t, json.Unmarshal([]byte(got.out), &found))
	if found.Transport != "shared memory" || found.Calls < 1 || found.MeanNs < 1 || found.Slowest > float64(found.Calls) ||
		found.Asleep < 0 || found.Asleep > 1 || found.Hot != (found.Asleep <= 0.1) {
		t.Fatalf("got %s", got.out)
	}
}

// TestPingTellsWhyCallsAreNotHot: each side's own reason.
func TestPingTellsWhyCallsAreNotHot(t *testing.T) {
	address := serveDemo(t)
	for what, want := range map[string][]string{
		address + "?spin=off": {"not hot, asleep for ", "caller slept", ": spin=off", "server slept", ": the other side slept"},
		address + "?shm=off":  {"not hot, by unix socket: ", "the address says shm=off"},
		serve(t, demo.Register, server.WithoutSharedMemory()):               {"not hot, by unix socket: ", "the server offers no shared memory"},
		serve(t, demo.Register, server.WithSharedMemoryBytesPerUser(1<<10)): {"not hot, by unix socket: ", "the server has refused", "its log says why"},
		serve(t, demo.Register, server.WithSpin(spin.Off)):                  {"server slept", ": spin=off"},
	} {
		nearcall(t, "ping", "--shm", what).expect(t, 0, want...)
	}
}

// TestPingCallsOlderServers: one that does not have nearcall.ping answers as quickly.
func TestPingCallsOlderServers(t *testing.T) {
	older := func(ctx context.Context, call intercept.Call, next intercept.Next) error {
		if call.Function() == "nearcall.ping" {
			return status.Errorf(status.Unimplemented, "the server has no function %q", call.Function())
		}
		return next(ctx)
	}
	nearcall(t, "ping", "--shm", serve(t, demo.Register, server.WithInterceptor(older))).expect(t, 0, "calls in 1s")
}

// TestThrottled: what a quota has taken from a process is in the counters of its control group,
// of either version.
func TestThrottled(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	write("proc/2/cgroup", "0::/a/b\n")
	write("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 7\nnr_throttled 3\nthrottled_usec 1500\n")
	write("proc/1/cgroup", "5:memory:/c\n4:cpu,cpuacct:/c\n0::/\n")
	write("sys/fs/cgroup/cpu,cpuacct/c/cpu.stat", "nr_periods 4\nthrottled_time 2000000\n")
	for processID, want := range map[int]time.Duration{1: 2 * time.Millisecond, 2: 1500 * time.Microsecond, 3: 0} {
		if got := command.Throttled(root, processID); got != want {
			t.Errorf("process %d: %v, want %v", processID, got, want)
		}
	}
}
