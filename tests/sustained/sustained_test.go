package sustained_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/windows"
	"github.com/nearcall/nearcall/tests/processes"
)

const (
	defaultSeconds = 10
	// A window of minutes is slow in which calls are made at a lower rate than that, or at
	// less than a fifth of the best one's.
	minutes     = 5 * time.Minute
	slowPerS    = 200_000
	slowOfBest  = 5
	slowPerCent = 2
	// One of seconds is slow where calls are hardly quicker than over the socket. Beside three
	// programs that compute less than a tenth of them were; where a side never spins, or not any
	// more after others had their turn, all or most were.
	slowSoonPerS    = 100_000
	slowSoonPerCent = 25
	// Before seconds are counted a neighbour computes, and then a rest for it may go on.
	neighbourSeconds = 1
	restSeconds      = 1
)

// A setting is where both sides may run.
type setting struct {
	name           string
	caller, server []string // what starts them
}

var settings = []setting{
	{name: "sustained"},
	{
		name:   "sustained-one-cpu-each",
		caller: []string{"taskset", "--cpu-list", "0"},
		server: []string{"env", "GOMAXPROCS=1", "taskset", "--cpu-list", "1"},
	},
}

// TestCallsWithoutPauseStayHot: who calls without a pause has slow windows for a fiftieth
// of five minutes at most (NEARCALL_SUSTAINED_SECONDS=300), and for a quarter of the seconds
// after a neighbour has gone.
func TestCallsWithoutPauseStayHot(t *testing.T) {
	length := time.Duration(processes.Setting(t, "NEARCALL_SUSTAINED_SECONDS", defaultSeconds)) * time.Second
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			processes.StartServer(t, nil, path, append(s.server, built.server)...)
			var before time.Duration
			if length < minutes {
				before = (neighbourSeconds + restSeconds) * time.Second
				computeBeside(t)
			}
			all := s.call(t, "unix:"+path, int((before+length)/windows.Length))[before/windows.Length:]
			least, perCent := max(slowPerS, rates(all).MostPerS/slowOfBest), slowPerCent
			if length < minutes {
				least, perCent = slowSoonPerS, slowSoonPerCent
			}
			slow := slowWindows(all, least)
			said := summary(all)
			t.Logf("%d of %d windows are slow; %s", len(slow), len(all), said)
			for _, i := range slow {
				t.Logf("window %d: %v", i, all[i])
			}
			if most := len(all) * perCent / 100; len(slow) > most {
				t.Errorf("%d windows of %d are slow, want at most %d", len(slow), len(all), most)
			}
			record(t, s.name, len(all), len(slow), length, said)
		})
	}
}

// computeBeside starts the neighbour.
func computeBeside(t *testing.T) {
	t.Helper()
	processes.Start(t, nil, "timeout", strconv.Itoa(neighbourSeconds), "sh", "-c", "while :; do :; done")
}

// call lets a caller call, and returns its windows.
func (s setting) call(t *testing.T, address string, count int) []window {
	t.Helper()
	caller := processes.Start(t, nil, append(s.caller, built.caller, address, strconv.Itoa(count),
		strconv.FormatInt(windows.Length.Milliseconds(), 10))...)
	var all []window
	for caller.Lines.Scan() {
		all = append(all, parse(t, caller.Lines.Text()))
	}
	if err := caller.Wait(); err != nil || len(all) != 1+count {
		t.Fatalf("%d windows of %d: %v", len(all), 1+count, err)
	}
	for i := len(all) - 1; i > 0; i-- {
		all[i].sinceEndOf(&all[i-1])
	}
	return all[1:]
}

// slowWindows are the numbers of those with fewer calls per second.
func slowWindows(all []window, least float64) (slow []int) {
	for i := range all {
		if all[i].perSecond() < least {
			slow = append(slow, i)
		}
	}
	return slow
}

func rates(all []window) windows.Rates {
	var counts []uint64
	for i := range all {
		counts = append(counts, all[i].calls)
	}
	return windows.RatesOf(counts, windows.Length)
}

// summary is what callers had in all.
func summary(all []window) string {
	var calls uint64
	for i := range all {
		calls += all[i].calls
	}
	r := rates(all)
	mean := float64(calls) / (time.Duration(len(all)) * windows.Length).Seconds()
	return fmt.Sprintf("calls/s: mean %.0f, least window %.0f, p10 %.0f, median %.0f, most %.0f", mean, r.LeastPerS, r.P10PerS, r.MedianPerS, r.MostPerS)
}

// record keeps the count, where that is wanted.
func record(t *testing.T, name string, count, slow int, length time.Duration, note string) {
	t.Helper()
	if !processes.Recorded() {
		return
	}
	err := processes.Run("go", "run", "-C", processes.Root+"/benchmarks", "./record", "-name", name, "-count", strconv.Itoa(count),
		"-failures", strconv.Itoa(slow), "-seconds", strconv.FormatFloat(length.Seconds(), 'f', -1, 64),
		"-note", fmt.Sprintf("windows of %v, failures are slow ones; %s", windows.Length, note))
	if err != nil {
		t.Error(err)
	}
}
