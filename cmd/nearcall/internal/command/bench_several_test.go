package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
)

// benchSeveral measures several settings and returns what it prints as JSON.
func benchSeveral(t *testing.T, code int, args ...string) benchResult {
	t.Helper()
	got := nearcall(t, append([]string{"bench", "--json", "--warm-up", "20ms", "--duration", "60ms"}, args...)...).expect(t, code)
	var r benchResult
	must(t, json.Unmarshal([]byte(got.out), &r))
	return r
}

// Lists are measured in every combination, and each row says which it is.
func TestBenchSeveral(t *testing.T) {
	r := benchSeveral(t, 0, "--callers", "1,3", "--payload-bytes", "0,5000", "--transport", "socket,shm", serveDemo(t), "echo")
	var rows []string
	for _, row := range r.Rows {
		rows = append(rows, fmt.Sprint(*row.PayloadBytes, " ", row.Callers, " ", row.Transport))
		if row.Calls == 0 || row.P50Ns <= 0 || len(row.P50NsRounds) != 3 || row.ServerCPUNs == nil {
			t.Errorf("got %+v", row)
		}
	}
	want := []string{"0 1 unix socket", "0 1 shared memory", "0 3 unix socket", "0 3 shared memory",
		"5000 1 unix socket", "5000 1 shared memory", "5000 3 unix socket", "5000 3 shared memory"}
	if !slices.Equal(rows, want) || r.Rounds != 3 {
		t.Errorf("%d rounds of %q", r.Rounds, rows)
	}
}

// The payload is the last argument.
func TestBenchPayload(t *testing.T) {
	var wrong atomic.Int64
	address := serve(t, func(s *server.Server) {
		s.Register("store", func(key int64, value string) {
			if key != 7 || len(value) != 100 {
				wrong.Add(1)
			}
		})
		s.Register("double", func(a float64) float64 { return 2 * a })
	})
	if bench(t, "--payload-bytes", "100", address, "store", "7"); wrong.Load() > 0 {
		t.Errorf("%d calls had other arguments", wrong.Load())
	}
	nearcall(t, "bench", "--payload-bytes", "1", address, "double").expect(t, 67, "double(")
	nearcall(t, "bench", "--raw", "--payload-bytes", "1", address, "store", "7").expect(t, 2, "--raw sends one argument")
}

// Settings take turns in every round.
func TestBenchTakesTurns(t *testing.T) {
	var mu sync.Mutex
	var turns []int
	address := serve(t, func(s *server.Server) {
		s.Register("take", func(text string) {
			mu.Lock()
			defer mu.Unlock()
			if len(turns) == 0 || turns[len(turns)-1] != len(text) {
				turns = append(turns, len(text))
			}
		})
	})
	if benchSeveral(t, 0, "--rounds", "2", "--payload-bytes", "1,2,3", address, "take"); !slices.Equal(turns, []int{1, 2, 3, 1, 2, 3}) {
		t.Errorf("turns went %v", turns)
	}
}

// A setting that cannot be measured says why in its row, the others are measured, and
// the exit code is 1.
func TestBenchFailedSetting(t *testing.T) {
	address := serve(t, func(s *server.Server) {
		s.Register("small", func(text string) error {
			if len(text) > 10 {
				return errors.New("too much for me")
			}
			return nil
		})
	}, server.WithoutSharedMemory())
	args := []string{"--payload-bytes", "1,11", "--transport", "shm,socket", address, "small"}
	r := benchSeveral(t, 1, args...)
	for i, why := range []string{"calls went by unix socket", "", "too much for me", "too much for me"} {
		row := r.Rows[i]
		if !strings.Contains(row.Failed, why) || (row.Failed == "") != (why == "") || (row.Calls == 0) != (why != "") {
			t.Errorf("row %d is %+v", i, row)
		}
	}
	table := nearcall(t, append([]string{"bench", "--warm-up", "10ms", "-d", "30ms"}, args...)...).expect(t, 1,
		"small, 3 rounds of 10ms after 10ms of warm-up; times in µs\n", "3 of 4 settings failed")
	lines := strings.Split(table.out, "\n")
	if len(lines) != 7 || !strings.HasSuffix(lines[5], "unix socket  failed: "+r.Rows[3].Failed) {
		t.Errorf("got %s", table.out)
	}
	nearcall(t, "bench", "--transport", "shm", "-d", "10ms", "--warm-up", "10ms", address, "small", "x").expect(t, 1, "calls went by unix socket")
}

// Calls that fail on the way are told below their row.
func TestBenchSeveralCountsFailures(t *testing.T) {
	var calls atomic.Int64
	address := serve(t, func(s *server.Server) {
		s.Register("tires", func() error {
			if calls.Add(1)%2 == 0 {
				return errors.New("tired")
			}
			return nil
		})
	})
	nearcall(t, "bench", "--warm-up", "0", "-d", "30ms", "--callers", "1,3", "--rounds", "1", address, "tires").expect(t, 1,
		" calls failed: ", "tired", "settings failed; their rows say why")
}

// Calls that were due and never begun are told.
func TestBenchMissed(t *testing.T) {
	address := serveDemo(t)
	args := []string{"bench", "--rate", "100", "--warm-up", "0", "-d", "200ms"}
	nearcall(t, append(args, address, "sleep", "50")...).expect(t, 0, "missed")
	nearcall(t, append(args, "--rounds", "2", "--callers", "1,2", address, "sleep", "50")...).expect(t, 0, "calls missed: due and never begun")
}

// At a low rate connections have shared memory all the same, before anything is
// measured.
func TestBenchWarmUpIsNotPaced(t *testing.T) {
	address := serveDemo(t)
	if r := bench(t, "--rate", "30", "--warm-up", "300ms", address, "one"); r.Transport != "shared memory" {
		t.Errorf("calls went by %s", r.Transport)
	}
}

// The transport is that of all connections, and that of all the time.
func TestBenchTellsEveryTransport(t *testing.T) {
	const enoughForSome = 128 << 10
	address := serve(t, func(s *server.Server) { s.Register("one", func() int { return 1 }) },
		server.WithSharedMemoryArena(0), server.WithSharedMemoryBytesPerUser(enoughForSome))
	if r := bench(t, "--warm-up", "0", address, "one"); r.Transport != "unix socket, then shared memory" {
		t.Errorf("without warm-up calls went by %s", r.Transport)
	}
	r := bench(t, "--callers", "12", "--warm-up", "300ms", address, "one")
	if some := r.Connections["shared memory"]; some == 0 || r.Connections["unix socket"] == 0 ||
		!strings.Contains(r.Transport, "unix socket (") || !strings.Contains(r.Transport, "shared memory (") {
		t.Errorf("calls went by %s, %v", r.Transport, r.Connections)
	}
}

// Callers of a slow function connect at the same time.
func TestBenchConnectsAtOnce(t *testing.T) {
	const callers = 8
	var waiting atomic.Int64
	all := make(chan struct{})
	address := serve(t, func(s *server.Server) {
		s.Register("meets", func() error {
			if waiting.Add(1) == callers {
				close(all)
			}
			select {
			case <-all:
				return nil
			case <-time.After(10 * time.Second):
				return errors.New("the other callers did not come")
			}
		})
	})
	bench(t, "--callers", fmt.Sprint(callers), address, "meets")
}

// What is kept says where and how it was measured.
func TestBenchOutput(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "results")
	begin := time.Now().Add(-2 * time.Second)
	address := serveDemo(t)
	got := nearcall(t, "bench", "--json", "--output", folder, "--warm-up", "10ms", "-d", "50ms", address+"?spin=off", "one").expect(t, 0)
	files, err := filepath.Glob(folder + "/*-*cpu.json")
	must(t, err)
	if len(files) != 1 || !strings.Contains(got.err, "wrote "+files[0]) || !strings.HasPrefix(filepath.Base(files[0]), begin.UTC().Format("2006-01")) {
		t.Fatalf("there is %q; it said %s", files, got.err)
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	if string(text) != got.out {
		t.Errorf("the file has\n%sand was printed\n%s", text, got.out)
	}
	var r benchResult
	must(t, json.Unmarshal(text, &r))
	if r.Date.Before(begin) || r.Machine.CPU == "" || r.Machine.Kernel == "" || r.Versions.Nearcall != client.Version || r.Versions.Go != runtime.Version() ||
		r.GoMaxProcs < 1 || r.Spin != "off" || r.WarmUpNs != 10_000_000 || r.DurationNs != 50_000_000 || r.Rounds != 1 {
		t.Errorf("got %s", text)
	}
	var counted uint64
	for _, count := range r.Histogram.Counts {
		counted += count
	}
	if counted != r.Calls || len(r.Histogram.LowerNs) != len(r.Histogram.Counts) {
		t.Errorf("the histogram has %d calls of %d", counted, r.Calls)
	}
	writeInTheSameSecond(t, files[0], address)
	// Nothing is measured that could not be kept.
	nearcall(t, "bench", "--output", files[0], "-d", "1h", address, "one").expect(t, 1)
}

// writeInTheSameSecond measures once more while there are files of all seconds that the
// end may be in, beside the one that is given.
func writeInTheSameSecond(t *testing.T, path, address string) {
	t.Helper()
	const layout = "2006-01-02-150405"
	folder, name := filepath.Split(path)
	first, err := time.Parse(layout, name[:len(layout)])
	must(t, err)
	for second := range 30 {
		other := first.Add(time.Duration(second)*time.Second).Format(layout) + name[len(layout):]
		must(t, os.WriteFile(filepath.Join(folder, other), nil, 0o644))
	}
	got := nearcall(t, "bench", "--output", folder, "--warm-up", "0", "-d", "10ms", address, "one").expect(t, 0)
	if !strings.Contains(got.err, "-2.json\n") {
		t.Errorf("it said %s", got.err)
	}
}

// What an address has no choice of is told before anything is measured.
func TestBenchTransportOfAddress(t *testing.T) {
	nearcall(t, "bench", "--transport", "shm", "tcp:127.0.0.1:1", "one").expect(t, 2, "only a unix: address")
	nearcall(t, "bench", "--transport", "shm", "unix:/a | unix:/b", "one").expect(t, 2, "several endpoints")
	nearcall(t, "bench", "--transport", "shm", "unix:/no/such/socket?shm=off", "one").expect(t, 2, "shm=off")
	nearcall(t, "bench", "--transport", "shm,socket", "unix:/no/such/socket", "one").expect(t, 78)
}

func TestBenchSeveralProgress(t *testing.T) {
	address := serveDemo(t)
	script := exec.Command("script", "-qec", binary+" bench --duration 500ms --warm-up 0 --rounds 1 --callers 1,2 "+address+" one", "/dev/null")
	script.Env = append(os.Environ(), "NO_COLOR=1", "TERM=xterm")
	out, err := script.Output()
	must(t, err)
	if !strings.Contains(string(out), "calling (2 callers)") || !strings.Contains(string(out), "one, 1") && !strings.Contains(string(out), "one, 500ms") {
		t.Errorf("got %q", out)
	}
}

// The bar never goes back, however long connections are warmed up.
func TestBenchProgressGoesOn(t *testing.T) {
	address := serve(t, func(s *server.Server) { s.Register("one", func() int { return 1 }) }, server.WithoutSharedMemory())
	script := exec.Command("script", "-qc", binary+" bench --transport shm,socket --rounds 1 --warm-up 100ms --duration 300ms "+address+" one", "/dev/null")
	script.Env = append(os.Environ(), "NO_COLOR=1", "TERM=xterm")
	out, err := script.Output()
	must(t, err)
	highest := 0
	for _, shown := range regexp.MustCompile(`(\d+)%`).FindAllSubmatch(out, -1) {
		percent, err := strconv.Atoi(string(shown[1]))
		must(t, err)
		if percent < highest {
			t.Fatalf("%d%% after %d%% in %q", percent, highest, out)
		}
		highest = percent
	}
	if highest <= 50 {
		t.Errorf("the bar ends at %d%% in %q", highest, out)
	}
}
