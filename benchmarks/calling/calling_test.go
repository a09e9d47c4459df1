package calling_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

const (
	pace  = 2 * time.Millisecond
	stall = 15 * pace
)

// A call that was held up counts for those that it held up, also when the time of the
// run is over by then: each is timed from when it was due.
func TestCallsThatAreDueAreMadeAndTimedFromThen(t *testing.T) {
	const due, stalls, takes = 60, 50, pace / 4
	var timer calling.FakeTimer
	calls := 0
	samples, err := timer.Paced(func() error {
		timer.Now += takes
		if calls++; calls == stalls {
			timer.Now += stall
		}
		return nil
	}, due*pace, pace)
	if err != nil || len(samples) != due {
		t.Fatalf("%d of %d calls were made, %v", len(samples), due, err)
	}
	for n, sample := range samples {
		want := takes
		if n >= stalls-1 {
			// The nth was due so many paces after the one that took long.
			behind := time.Duration(n - (stalls - 1))
			want = stall - behind*pace + (behind+1)*takes
		}
		if want = max(want, takes); time.Duration(sample) != want {
			t.Errorf("call %d took %v, %v were expected", n+1, time.Duration(sample), want)
		}
	}
}

// A timer that wakes a caller a little late is none of its calls' time. A machine that
// stalls while the caller sleeps holds up the call that is due then.
func TestACallerWokenLateIsTimedFromWhenItsCallWasDue(t *testing.T) {
	for late, want := range map[time.Duration]time.Duration{
		pace / 4: 0, time.Millisecond: 0, time.Millisecond + 1: time.Millisecond + 1, stall: stall,
	} {
		timer := calling.FakeTimer{Late: late}
		samples, err := timer.Paced(func() error { return nil }, pace, pace)
		if err != nil || len(samples) != 1 || time.Duration(samples[0]) != want {
			t.Errorf("woken %v late the calls took %v, not %v; %v", late, samples, want, err)
		}
	}
}

// However short a run, one call is due.
func TestAPacedRunHasACall(t *testing.T) {
	calls := 0
	command := protocol.Command{Length: time.Nanosecond, PerSecond: 1000}
	report, err := calling.New([]calling.Call{func() error { calls++; return nil }}).Measure(command, 0)
	if err != nil || calls != 1 || len(report.Samples[0]) != 1 || report.Elapsed < time.Millisecond {
		t.Errorf("%d calls, report %v, %v", calls, report, err)
	}
}

// The memory of a run is that of the one before it.
func TestSamplesOfARunAreItsOwn(t *testing.T) {
	callers := calling.New([]calling.Call{func() error { return nil }})
	for _, count := range []int{3, 2} {
		report, err := callers.Measure(protocol.Command{Length: time.Hour}, count)
		if err != nil || len(report.Samples[0]) != count {
			t.Errorf("%d calls have the samples %v, %v", count, report.Samples, err)
		}
	}
}

func TestCallersMakeSoManyCalls(t *testing.T) {
	calls := 0
	report, err := calling.New([]calling.Call{func() error { calls++; return nil }}).Measure(protocol.Command{Length: time.Hour}, 7)
	if err != nil || calls != 7 || len(report.Samples[0]) != 7 {
		t.Errorf("%d calls, report %v, %v", calls, report, err)
	}
}

func TestACallThatFailsEndsTheRun(t *testing.T) {
	failure := errors.New("it fails")
	_, err := calling.New([]calling.Call{func() error { return failure }}).Measure(protocol.Command{Length: time.Hour}, 0)
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

func TestEchoesAreCompared(t *testing.T) {
	payload := calling.Payload(64)
	same := func(request []byte) ([]byte, error) { return request, nil }
	if _, err := calling.Echoing([]calling.Echo{same}, payload); err != nil {
		t.Errorf("the same: %v", err)
	}
	other := func(request []byte) ([]byte, error) { return make([]byte, len(request)), nil }
	if _, err := calling.Echoing([]calling.Echo{same, other}, payload); !errors.Is(err, calling.ErrDiffers) {
		t.Errorf("other bytes: %v", err)
	}
	length := 64
	shorter := func(request []byte) ([]byte, error) { return request[:length], nil }
	calls, err := calling.Echoing([]calling.Echo{shorter}, payload)
	if err != nil {
		t.Fatal(err)
	}
	length = 63
	if err := calls[0](); !errors.Is(err, calling.ErrDiffers) {
		t.Errorf("another length: %v", err)
	}
}
