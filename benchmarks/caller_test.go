package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// startFakes starts fake callers that tell what they are told.
func startFakes(t *testing.T, count int) []*process.Process {
	t.Helper()
	t.Setenv(asCaller, "1")
	callers := make([]*process.Process, count)
	for i := range callers {
		var err error
		if callers[i], err = process.Start(os.Args[0], "tells"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(callers[i].Stop)
	}
	return callers
}

func monotonic(t *testing.T) uint64 {
	t.Helper()
	var now unix.Timespec
	check(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return uint64(now.Nano())
}

func TestCallersBeginAtTheSameTime(t *testing.T) {
	const count, milliseconds, perSecond = 3, 7, 5
	before := monotonic(t)
	r, err := measure(startFakes(t, count), nobody, nil, turn{length: milliseconds * time.Millisecond, perSecond: perSecond})
	check(t, err)
	// All samples are one heap: what each was told, in ascending order.
	told := slices.Compact(slices.Clone(r.samples))
	if len(r.samples) != 3*count || len(told) != 3 || told[0] != perSecond || told[1] != milliseconds {
		t.Fatalf("callers were told %v", r.samples)
	}
	if begin := told[2]; begin < before+uint64(togetherLead) {
		t.Errorf("they were to begin %d ns after the command, of %d", begin-before, togetherLead)
	}
	if r.calls != 3*count || r.perSecond != count*3/1e-6 || *r.callerCPU != count*1000 {
		t.Errorf("their figures are not added: %d calls, %v/s, %v", r.calls, r.perSecond, *r.callerCPU)
	}
}

// A turn of so many calls takes longer on a slower machine: that is no reason to lose it.
func TestTurnMayTakeAsLongAsASlowMachineNeeds(t *testing.T) {
	transport := groupsNamed("transport")[0]
	for _, row := range transport.rows {
		if got := row.turn(transport.onlyFull.length).timeout(); got < slowestMachine*8*time.Second {
			t.Errorf("%s has %v, and takes about %v", row.name, got, row.about)
		}
	}
	row := rowPlan{perSecond: 3}
	if got, want := row.turn(time.Minute), (turn{length: time.Minute, perSecond: 3}); got != want || got.timeout() != time.Minute+reportTimeout {
		t.Errorf("a row of rounds has %+v, within %v", got, got.timeout())
	}
}

func TestWhatIsNotCountedIsNotAdded(t *testing.T) {
	row := measureFakes(t, fakeRow(t, "silent", "cannot tell"))[0]
	if reduced := row.reduced(); reduced.Failed != "" || reduced.CallerCPU != nil {
		t.Errorf("got %+v", reduced)
	}
	if reduced := row.reduced(); reduced.ServerCPU == nil || *reduced.ServerCPU != 0 {
		t.Errorf("where there is no server it used %v", reduced.ServerCPU)
	}
}
