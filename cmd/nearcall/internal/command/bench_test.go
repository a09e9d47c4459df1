package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/windows"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// benchResult is what `nearcall bench --json` prints, of one setting and of several.
type benchResult struct {
	benchRow
	Date     time.Time
	Machine  struct{ CPU, Kernel string }
	Versions struct{ Nearcall, Go string }
	Address  string
	Spin     string
	Function string
	Shared   bool
	Rounds   int

	GoMaxProcs int   `json:"gomaxprocs"`
	DurationNs int64 `json:"duration_ns"`
	WarmUpNs   int64 `json:"warm_up_ns"`

	Rows []benchRow
}

type benchRow struct {
	Callers      int
	PayloadBytes *int `json:"payload_bytes"`
	Transport    string
	Connections  map[string]int
	Failed       string
	Failure      string
	Calls        uint64
	FailedCalls  uint64  `json:"failed_calls"`
	Missed       uint64  `json:"missed"`
	PerS         float64 `json:"per_s"`
	ElapsedNs    int64   `json:"elapsed_ns"`
	MinNs        int64   `json:"min_ns"`
	MeanNs       int64   `json:"mean_ns"`
	P50Ns        int64   `json:"p50_ns"`
	P90Ns        int64   `json:"p90_ns"`
	P99Ns        int64   `json:"p99_ns"`
	P999Ns       int64   `json:"p999_ns"`
	MaxNs        int64   `json:"max_ns"`
	CallerCPUNs  int64   `json:"caller_cpu_ns_per_call"`
	ServerCPUNs  *int64  `json:"server_cpu_ns_per_call"`
	P50NsRounds  []int64 `json:"p50_ns_rounds"`
	Windows      *struct {
		LengthNs int64 `json:"length_ns"`
		windows.Rates
		PerS []float64 `json:"per_s"`
	}
	Histogram struct {
		LowerNs []int64 `json:"lower_ns"`
		Counts  []uint64
	}
}

func bench(t *testing.T, args ...string) benchResult {
	t.Helper()
	got := nearcall(t, append([]string{"bench", "--json", "--warm-up", "10ms", "--duration", "200ms"}, args...)...).expect(t, 0)
	var r benchResult
	must(t, json.Unmarshal([]byte(got.out), &r))
	if r.Calls == 0 || r.FailedCalls != 0 || r.PerS <= 0 || r.CallerCPUNs <= 0 ||
		r.MinNs > r.P50Ns || r.P50Ns > r.P90Ns || r.P90Ns > r.P99Ns || r.P99Ns > r.P999Ns || r.P999Ns > r.MaxNs {
		t.Fatalf("got %s", got.out)
	}
	if w := r.Windows; r.MeanNs < r.MinNs || r.MeanNs > r.MaxNs || w == nil || len(w.PerS) == 0 || w.LeastPerS > w.MedianPerS || w.MedianPerS > w.MostPerS || w.MostPerS == 0 {
		t.Fatalf("over time it got %s", got.out)
	}
	return r
}

func TestBench(t *testing.T) {
	address := serveDemo(t)
	got := nearcall(t, "bench", "-d", "100ms", "--warm-up", "0", address, "ack", "2", "3").expect(t, 0,
		"ack by ", "1 caller, 100ms after 0s of warm-up", "slowest 100ms", "mean", "p99.9", "CPU, caller", "CPU, server")
	if got.err != "" {
		t.Errorf("on standard error: %q", got.err)
	}
	r := bench(t, address+"?shm=off", "md5", "hoge")
	if r.Transport != "unix socket" || r.Function != "md5" || r.Callers != 1 || r.ServerCPUNs == nil || *r.ServerCPUNs <= 0 {
		t.Errorf("got %+v", r)
	}
	if r := bench(t, "--callers", "3", "--shared", address, "one"); r.Callers != 3 || !r.Shared {
		t.Errorf("got %+v", r)
	}
	if r := bench(t, "--raw", "--callers", "2", address, "echo", "text"); r.Shared {
		t.Errorf("got %+v", r)
	}
}

// Callers have connections of their own, unless they are to share one.
func TestBenchConnections(t *testing.T) {
	address := serveDemo(t)
	count := func(args ...string) int {
		nearcall(t, append([]string{"bench", "-d", "50ms", "--warm-up", "0"}, append(args, address, "one")...)...).expect(t, 0)
		var stats struct {
			Total int `json:"connections_total"`
		}
		must(t, json.Unmarshal([]byte(nearcall(t, "stats", "--json", address).expect(t, 0).out), &stats))
		return stats.Total
	}
	before := count("--callers", "4", "--shared")
	if own := count("--callers", "4") - before; own < 4 {
		t.Errorf("four callers opened %d connections", own)
	}
}

// At a rate every caller waits for its turn, and a call that stalls delays those
// that are due: all of them tell it.
func TestBenchRate(t *testing.T) {
	var calls atomic.Int64
	address := serve(t, func(s *server.Server) {
		s.Register("stalls", func() {
			if calls.Add(1) == 20 {
				time.Sleep(100 * time.Millisecond)
			}
		})
	})
	r := bench(t, "--rate", "200", "--warm-up", "0", address, "stalls")
	if r.Calls > 42 {
		t.Errorf("%d calls in 200 ms where 40 were due", r.Calls)
	}
	if r.MaxNs < int64(100*time.Millisecond) || r.P90Ns < int64(30*time.Millisecond) {
		t.Errorf("a stall of 100 ms shows as %+v", r)
	}
}

// A time without calls is one of its windows, and moves the mean; p50 hides it.
func TestBenchTellsSlowTimes(t *testing.T) {
	var calls atomic.Int64
	address := serve(t, func(s *server.Server) {
		s.Register("stalls", func() {
			if calls.Add(1) == 50 {
				time.Sleep(700 * time.Millisecond)
			}
		})
	})
	r := bench(t, "--duration", "1s", "--warm-up", "0", address, "stalls")
	if w := r.Windows; w.LeastPerS != 0 || w.LengthNs != int64(250*time.Millisecond) || len(w.PerS) != 4 || w.MostPerS == 0 {
		t.Errorf("its windows are %+v", w)
	}
	if r.MeanNs <= r.P50Ns {
		t.Errorf("the mean is %d ns, p50 %d ns", r.MeanNs, r.P50Ns)
	}
}

func TestBenchFailures(t *testing.T) {
	address := serveDemo(t)
	nearcall(t, "bench", address, "fail", "5", "x").expect(t, 69, "NOT_FOUND")
	nearcall(t, "bench", "--json", address, "fail", "5", "x").expect(t, 69, `"name":"NOT_FOUND"`)
	nearcall(t, "bench", address, "ack", "three", "4").expect(t, 67)
	nearcall(t, "bench", address, "no_such_function").expect(t, 76)
	nearcall(t, "bench", "unix:/no/such/socket", "one").expect(t, 78)
	nearcall(t, "bench", address).expect(t, 2)
	for _, flag := range []string{"--callers=1,0", "--payload-bytes=-1", "--payload-bytes=16777217", "--transport=tcp", "--rounds=-1", "--callers=0", "--callers=10001", "--duration=0", "--warm-up=-1s", "--rate=-1", "--rate=NaN", "--rate=x"} {
		nearcall(t, "bench", flag, address, "one").expect(t, 2)
	}
	nearcall(t, "bench", "--raw", address, "echo", "one", "two").expect(t, 2)
}

// Calls that fail on the way are counted, and the exit code is theirs.
func TestBenchCountsFailures(t *testing.T) {
	var calls atomic.Int64
	address := serve(t, func(s *server.Server) {
		s.Register("tires", func() error {
			if calls.Add(1)%2 == 0 {
				return status.Errorf(status.ResourceExhausted, "tired")
			}
			return nil
		})
	})
	got := nearcall(t, "bench", "--json", "-d", "50ms", "--warm-up", "0", address, "tires").expect(t, 72, "tired")
	var r benchResult
	must(t, json.Unmarshal([]byte(got.out), &r))
	if r.FailedCalls == 0 || r.Calls == 0 || !strings.Contains(r.Failure, "tired") {
		t.Errorf("got %s", got.out)
	}
}

// Who stops it sees what was measured until then.
func TestBenchIsStopped(t *testing.T) {
	address := serveDemo(t)
	run := exec.Command(binary, "bench", "--duration", "1h", "--warm-up", "0", address, "one")
	var out, failure strings.Builder
	run.Stdout, run.Stderr = &out, &failure
	must(t, run.Start())
	awaitCalls(t, address, 2)
	must(t, run.Process.Signal(syscall.SIGINT))
	_ = run.Wait()
	if code := run.ProcessState.ExitCode(); code != 65 || !strings.Contains(out.String(), "p99.9") || !strings.Contains(failure.String(), "stopped after") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), failure.String())
	}
}

// awaitCalls waits until a server has run the function one so often.
func awaitCalls(t *testing.T, address string, calls int) {
	t.Helper()
	called := func() bool {
		var stats struct {
			Functions map[string]struct{ Calls int }
		}
		must(t, json.Unmarshal([]byte(nearcall(t, "stats", "--json", address).expect(t, 0).out), &stats))
		return stats.Functions["one"].Calls >= calls
	}
	for deadline := time.Now().Add(10 * time.Second); !called(); {
		if time.Now().After(deadline) {
			t.Fatal("it never called")
		}
	}
}

// Of several settings those that had no turn say so.
func TestBenchSeveralIsStopped(t *testing.T) {
	address := serveDemo(t)
	run := exec.Command(binary, "bench", "--duration", "1h", "--warm-up", "0", "--callers", "1,2", address, "one")
	var out, failure strings.Builder
	run.Stdout, run.Stderr = &out, &failure
	must(t, run.Start())
	awaitCalls(t, address, 50)
	must(t, run.Process.Signal(syscall.SIGINT))
	_ = run.Wait()
	if code := run.ProcessState.ExitCode(); code != 65 || strings.Count(out.String(), "failed: no call ended") != 1 || !strings.Contains(failure.String(), "stopped after") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), failure.String())
	}
}

// A round that was stopped before it was measured is none: by the first call of its
// connection, or by one to warm up.
func TestBenchIsStoppedBeforeARound(t *testing.T) {
	for _, transport := range []string{"socket", "shm"} {
		for call := range 2 {
			t.Run(fmt.Sprint(transport, " ", call), func(t *testing.T) { stopBeforeSecondRound(t, transport, int64(call)) })
		}
	}
}

// stopBeforeSecondRound stops it when a call of the second round, as that begins, waits.
func stopBeforeSecondRound(t *testing.T, transport string, call int64) {
	var calls atomic.Int64
	held := make(chan struct{})
	address := serve(t, func(s *server.Server) {
		s.Register("holds", func(ctx context.Context) {
			// It asks for the function on one connection, calls on one in each round, and
			// looks at the server's process through another.
			if s.Statistics().ConnectionsTotal <= 3 || calls.Add(1) != call+1 {
				return
			}
			close(held)
			<-ctx.Done()
		})
	}, server.WithSharedMemoryAfter(1))
	run := exec.Command(binary, "bench", "--json", "--transport", transport, "--rounds", "2", "--warm-up", "50ms", "--duration", "100ms", address, "holds")
	var out, failure bytes.Buffer
	run.Stdout, run.Stderr = &out, &failure
	must(t, run.Start())
	select {
	case <-held:
	case <-time.After(20 * time.Second):
		t.Error("there was no second round")
	}
	must(t, run.Process.Signal(syscall.SIGINT))
	_ = run.Wait()
	var r benchResult
	if err := json.NewDecoder(&out).Decode(&r); err != nil {
		t.Fatalf("%v\n%s", err, failure.String())
	}
	if code := run.ProcessState.ExitCode(); code != 65 || r.Calls == 0 || r.Failed != "" || len(r.P50NsRounds) != 1 || r.P50NsRounds[0] <= 0 {
		t.Errorf("exit code %d, got %+v", code, r)
	}
}

// Where every call fails there is nothing to tell but that.
func TestBenchOfFailures(t *testing.T) {
	address := serve(t, func(s *server.Server) {
		var calls atomic.Int64
		s.Register("once", func(who string) error {
			if calls.Add(1) > 1 {
				return status.Errorf(status.ResourceExhausted, "only once")
			}
			return nil
		})
	})
	if got := nearcall(t, "bench", "--warm-up", "0", "-d", "20ms", address, "once", "a").expect(t, 72, "only once"); got.out != "" {
		t.Errorf("got %s", got.out)
	}
	nearcall(t, "bench", "--warm-up", "0", "-d", "20ms", "--callers", "1,2", address, "once", "b").expect(t, 1, "failed: ", "only once", "2 of 2 settings failed")
}

// A terminal gets a progress bar, which is gone at the end; nothing else gets one.
func TestBenchProgress(t *testing.T) {
	address := serveDemo(t)
	script := exec.Command("script", "-qec", binary+" bench --duration 300ms --warm-up 0 "+address+" one", "/dev/null")
	script.Env = append(os.Environ(), "NO_COLOR=1", "TERM=xterm")
	out, err := script.Output()
	must(t, err)
	if !strings.Contains(string(out), "calling") || !regexp.MustCompile(`\r *\r+one by `).Match(out) {
		t.Errorf("got %q", out)
	}
}
