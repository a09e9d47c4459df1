package calling_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
)

// A call that was held up counts for those that it held up: each is timed from when it
// was due.
func TestPacedCallsAreTimedFromWhenTheyWereDue(t *testing.T) {
	const stall, pace = 30 * time.Millisecond, time.Millisecond
	first := true
	call := func() error {
		if first {
			first = false
			time.Sleep(stall)
		}
		return nil
	}
	report, err := calling.Measure([]calling.Call{call}, protocol.Command{Length: 60 * time.Millisecond, PerSecond: int(time.Second / pace)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	samples := report.Samples[0]
	// The tenth call was due nine paces after the first and made right after it.
	if len(samples) < 10 || time.Duration(samples[9]) < stall-10*pace {
		t.Errorf("%d samples; the tenth call took %v ns, at least %v were expected", len(samples), samples[min(9, len(samples)-1)], stall-10*pace)
	}
	if most := int(report.Elapsed/pace) + 1; len(samples) > most {
		t.Errorf("%d calls in %v", len(samples), report.Elapsed)
	}
}

func TestCallersMakeSoManyCalls(t *testing.T) {
	calls := 0
	report, err := calling.Measure([]calling.Call{func() error { calls++; return nil }}, protocol.Command{Length: time.Hour}, 7)
	if err != nil || calls != 7 || len(report.Samples[0]) != 7 {
		t.Errorf("%d calls, report %v, %v", calls, report, err)
	}
}

func TestACallThatFailsEndsTheRun(t *testing.T) {
	failure := errors.New("it fails")
	_, err := calling.Measure([]calling.Call{func() error { return failure }}, protocol.Command{Length: time.Hour}, 0)
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
