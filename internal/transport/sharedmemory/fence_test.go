package sharedmemory_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestNoWakeUpIsLost lets one side put a frame at the moment at which the other
// falls asleep: one of them must notice. With the race detector it sees that the
// stores are fences there too.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds, atMost = 200_000, 3 * time.Second
	caller, server := pair(t, testGeometry)
	var begun, ended atomic.Int64
	var mustWake bool
	go func() {
		for round := int64(1); round <= rounds; round++ {
			if await(&begun, round) != round {
				return
			}
			put(caller, uint64(round), nil)
			mustWake = caller.MustWake()
			ended.Store(round)
		}
	}()
	asleep, awake := 0, 0
	until := time.Now().Add(atMost)
	for round := int64(1); round <= rounds && time.Now().Before(until); round++ {
		begun.Store(round)
		for range round % 64 {
			server.Look(0)
		}
		slept := server.FallAsleep()
		await(&ended, round)
		if slept && !mustWake {
			t.Fatalf("round %d: one side sleeps, and the other, which has put a frame, does not wake it", round)
		}
		if slept {
			asleep++
		} else {
			awake++
		}
		server.Awake()
		if id, _, found := take(t, server); !found || id != uint64(round) {
			t.Fatalf("round %d: frame %d, %v", round, id, found)
		}
	}
	begun.Store(-1)
	t.Logf("%d rounds in which it slept, %d in which it saw the frame", asleep, awake)
}

// await spins until the word is the value or negative, and returns it. The two
// must meet within nanoseconds; it yields for those who have one CPU.
func await(word *atomic.Int64, value int64) int64 {
	for looks := 1; ; looks++ {
		if found := word.Load(); found == value || found < 0 {
			return found
		}
		if looks%256 == 0 {
			runtime.Gosched()
		}
	}
}
