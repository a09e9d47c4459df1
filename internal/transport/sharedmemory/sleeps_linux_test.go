package sharedmemory_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/spin"
)

// A sleeper is one side, whose peer sends nothing.
type sleeper struct {
	clock  monotonic.Clock
	waiter *sharedmemory.Waiter
	peer   *sharedmemory.Waiter
}

func newSleeper(t *testing.T, mode spin.Mode, sleeps *sharedmemory.Sleeps) *sleeper {
	t.Helper()
	callerEnd, serverEnd := pair(t, testGeometry)
	s := &sleeper{clock: monotonic.New()}
	s.peer = sharedmemory.NewCallerWaiter(callerEnd, s.clock, mode, time.Microsecond, new(sharedmemory.Sleeps))
	s.waiter = sharedmemory.NewWaiter(serverEnd, s.clock, mode, time.Microsecond, sleeps)
	return s
}

func (s *sleeper) close() {
	s.waiter.Close()
	s.peer.Close()
}

// await waits until the side is to sleep, or for a glance only, so long from now.
func (s *sleeper) await(later time.Duration, glance bool) {
	for {
		nowNs := s.clock.Ns() + uint64(later)
		if s.waiter.Await(nowNs, nowNs, func() bool { return glance }) == sharedmemory.Sleep {
			return
		}
	}
}

// sleep is woken, waits, and sleeps.
func (s *sleeper) sleep(t *testing.T) {
	t.Helper()
	s.waiter.Awake()
	s.await(0, false)
	s.fallAsleep(t)
}

func (s *sleeper) fallAsleep(t *testing.T) {
	t.Helper()
	if !s.waiter.FallAsleep() {
		t.Fatal("a frame is there")
	}
}

// TestSleepsByCause: why a side sleeps is counted when it does, and each cause is met where
// it is the case.
func TestSleepsByCause(t *testing.T) {
	for _, test := range []struct {
		cause      string
		mode       spin.Mode
		processors int
		once       func(t *testing.T, s *sleeper, own *ownThread)
	}{
		{"peer_asleep", spin.Auto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			s.peer.FallAsleep()
			s.sleep(t)
		}},
		{"off", spin.Off, 2, func(t *testing.T, s *sleeper, own *ownThread) { s.sleep(t) }},
		{"nothing_came", spin.Auto, 2, func(t *testing.T, s *sleeper, own *ownThread) { s.sleep(t) }},
		{"in_vain", spin.Auto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			for range 20 {
				s.sleep(t)
			}
		}},
		{"one_processor", spin.Auto, 1, func(t *testing.T, s *sleeper, own *ownThread) { s.sleep(t) }},
		{"process_turn", spin.Auto, 1, func(t *testing.T, s *sleeper, own *ownThread) {
			own.runOn(own.first)
			s.peer.Awake()
			own.runOn(own.second)
			s.waiter.Awake()
			s.await(0, true)
			s.await(3*time.Millisecond, true)
			s.fallAsleep(t)
		}},
		{"shared_processor", spin.Auto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			own.runOn(own.first)
			s.peer.Awake()
			// It may move for some times.
			for range 20 {
				s.waiter.Awake()
				s.await(0, true)
				s.fallAsleep(t)
			}
		}},
		{"no_place", spin.Auto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			other := newSleeper(t, spin.Auto, new(sharedmemory.Sleeps))
			defer other.close()
			other.waiter.Awake()
			other.await(0, true)
			s.sleep(t)
		}},
	} {
		t.Run(test.cause, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(test.processors))
			own := takeThread(t)
			sleeps := new(sharedmemory.Sleeps)
			// The number of CPUs is asked for now and then.
			for end := time.Now().Add(20 * time.Second); sleeps.ByCause()[test.cause] == 0; {
				if time.Now().After(end) {
					t.Fatalf("waited 20 s for it, got %v", sleeps.ByCause())
				}
				s := newSleeper(t, test.mode, sleeps)
				test.once(t, s, own)
				s.close()
			}
		})
	}
}
