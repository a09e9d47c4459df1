package sharedmemory_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

// A sleeper is one side, whose peer sends nothing.
type sleeper struct {
	clock  monotonic.Clock
	waiter *sharedmemory.Waiter
	peer   *sharedmemory.Waiter
}

func newSleeper(t *testing.T, mode address.Spin, sleeps *sharedmemory.Sleeps) *sleeper {
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
		mode       address.Spin
		processors int
		once       func(t *testing.T, s *sleeper, own *ownThread)
	}{
		{"peer_asleep", address.SpinAuto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			s.peer.FallAsleep()
			s.sleep(t)
		}},
		{"off", address.SpinOff, 2, func(t *testing.T, s *sleeper, own *ownThread) { s.sleep(t) }},
		{"nothing_came", address.SpinAuto, 2, func(t *testing.T, s *sleeper, own *ownThread) { s.sleep(t) }},
		{"in_vain", address.SpinAuto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			for range 20 {
				s.sleep(t)
			}
		}},
		{"one_processor", address.SpinAuto, 1, func(t *testing.T, s *sleeper, own *ownThread) { s.sleep(t) }},
		{"process_turn", address.SpinAuto, 1, func(t *testing.T, s *sleeper, own *ownThread) {
			own.runOn(own.first)
			s.peer.Awake()
			own.runOn(own.second)
			s.waiter.Awake()
			s.await(0, true)
			s.await(3*time.Millisecond, true)
			s.fallAsleep(t)
		}},
		{"shared_processor", address.SpinAuto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			own.runOn(own.first)
			s.peer.Awake()
			// It may move for some times.
			for range 20 {
				s.waiter.Awake()
				s.await(0, true)
				s.fallAsleep(t)
			}
		}},
		{"no_place", address.SpinAuto, 2, func(t *testing.T, s *sleeper, own *ownThread) {
			other := newSleeper(t, address.SpinAuto, new(sharedmemory.Sleeps))
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
