package calling_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
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

// A call that takes long leaves the windows before its end empty, and counts from the end
// of the call before; what lies between calls is a part of their time.
func TestSustainedCallsAreCountedByWindows(t *testing.T) {
	var timer calling.FakeTimer
	calls := 0
	samples, counter, err := timer.Sustained(func() error {
		timer.Now += 3 * time.Millisecond
		if calls++; calls == 17 {
			timer.Now += 25 * time.Millisecond
		}
		return nil
	}, 100*time.Millisecond, 10*time.Millisecond)
	// Ends are at 3, 6, 9 | 12 and so on to 48, then at 76, 79 | and so on.
	want := []uint64{3, 3, 3, 4, 3, 0, 0, 2, 3, 3}
	if err != nil || !slices.Equal(counter.Counts(), want) || counter.Calls() != 25 {
		t.Errorf("%d calls, in windows %v; %v", counter.Calls(), counter.Counts(), err)
	}
	if want := []uint64{3e6, 28e6}; !slices.Equal(samples, want) {
		t.Errorf("the samples are %v", samples)
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

// The other languages' callers send the same.
func TestPayloadsBegin(t *testing.T) {
	if got, want := calling.Payload(6), []byte{60, 94, 129, 180, 12, 94}; !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Callers that get each other's answers, of the right length, are found out.
func TestCrossedAnswersAreFound(t *testing.T) {
	const size = 64
	same := func(request []byte) ([]byte, error) { return request, nil }
	if err := calling.Verify([]calling.Echo{same, same}, size); err != nil {
		t.Errorf("the same: %v", err)
	}
	if err := calling.Verify(crossed(), size); !errors.Is(err, calling.ErrDiffers) {
		t.Errorf("crossed: %v", err)
	}
}

// crossed are two callers; each is answered what the other has asked.
func crossed() []calling.Echo {
	asked := [2]chan []byte{make(chan []byte, 1), make(chan []byte, 1)}
	var once [2]sync.Once
	echo := func(i int) calling.Echo {
		return func(request []byte) (answer []byte, err error) {
			answer = request
			once[i].Do(func() {
				asked[i] <- request
				answer = <-asked[1-i]
			})
			return answer, nil
		}
	}
	return []calling.Echo{echo(0), echo(1)}
}
