package sustained_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/windows"
)

// tick is what /proc/stat counts in.
const tick = 10 * time.Millisecond

// A window is what happened in it; as callers tell it, counts but that of calls are of all
// the time until its end.
type window struct {
	calls          uint64
	longest        time.Duration // of the calls
	slept, lostCPU int64         // how often the caller did
	used           time.Duration // of CPU, by the caller
	busy, stolen   time.Duration // of all CPUs
	serverSleeps   map[string]uint64
}

// parse reads a line of callers/steady.c.
func parse(t *testing.T, line string) (w window) {
	t.Helper()
	var sleeps string
	var usedUs, busyTicks, stolenTicks int64
	_, err := fmt.Sscan(line, &w.calls, (*int64)(&w.longest), &w.slept, &w.lostCPU, &usedUs, &busyTicks, &stolenTicks, &sleeps)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	w.used = time.Duration(usedUs) * time.Microsecond
	w.busy, w.stolen = time.Duration(busyTicks)*tick, time.Duration(stolenTicks)*tick
	if err := json.Unmarshal([]byte(sleeps), &w.serverSleeps); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return w
}

// sinceEndOf leaves what happened since the end of the window before.
func (w *window) sinceEndOf(before *window) {
	w.slept -= before.slept
	w.lostCPU -= before.lostCPU
	w.used -= before.used
	w.busy -= before.busy
	w.stolen -= before.stolen
	for cause := range w.serverSleeps {
		w.serverSleeps[cause] -= before.serverSleeps[cause]
	}
}

func (w *window) perSecond() float64 { return windows.PerSecond(w.calls, windows.Length) }

func (w window) String() string {
	of := func(d time.Duration) float64 { return d.Seconds() / windows.Length.Seconds() }
	return fmt.Sprintf("%.0f calls/s, the longest took %v; the caller slept %d times, lost its CPU %d times and had %.2f CPUs; %.2f were busy, %.2f stolen; the server's sleeps %v",
		w.perSecond(), w.longest, w.slept, w.lostCPU, of(w.used), of(w.busy), of(w.stolen), w.serverSleeps)
}
