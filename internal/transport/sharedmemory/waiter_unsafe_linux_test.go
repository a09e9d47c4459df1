package sharedmemory_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/spin"
)

// An ownThread is the thread of a test, or of a subtest, which are goroutines of their own: it
// stays on it and may move it. Another thread that was moved would stay where it is, whoever
// runs on it next.
type ownThread struct {
	t             *testing.T
	id            int
	first, second int // CPUs that it may use
}

func takeThread(t *testing.T) *ownThread {
	t.Helper()
	var allowed unix.CPUSet
	runtime.LockOSThread()
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed.Count() < 2 {
		t.Fatalf("%d CPUs may be used, the test needs 2: %v", allowed.Count(), err)
	}
	t.Cleanup(func() {
		unix.SchedSetaffinity(0, &allowed)
		runtime.UnlockOSThread()
	})
	var found []int
	for cpu := 0; len(found) < 2; cpu++ {
		if allowed.IsSet(cpu) {
			found = append(found, cpu)
		}
	}
	return &ownThread{t: t, id: unix.Gettid(), first: found[0], second: found[1]}
}

// runOn moves the thread to these CPUs.
func (o *ownThread) runOn(cpus ...int) {
	o.t.Helper()
	if running := unix.Gettid(); running != o.id {
		o.t.Fatalf("thread %d was to be moved, and this is %d", o.id, running)
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		o.t.Fatal(err)
	}
}

func thisCPU(t *testing.T) (cpu uint32) {
	t.Helper()
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	return cpu
}

// waiters returns those of both ends of a connection, and the caller's end.
func waiters(t *testing.T, clock monotonic.Clock) (caller, server *sharedmemory.Waiter, callerEnd *sharedmemory.End) {
	t.Helper()
	callerEnd, serverEnd := pair(t, testGeometry)
	caller = sharedmemory.NewCallerWaiter(callerEnd, clock, spin.Auto, time.Microsecond, new(sharedmemory.Sleeps))
	server = sharedmemory.NewWaiter(serverEnd, clock, spin.Auto, time.Microsecond, new(sharedmemory.Sleeps))
	t.Cleanup(caller.Close)
	t.Cleanup(server.Close)
	return caller, server, callerEnd
}

// TestWhoWakesBesideItsPeerMovesAway: a server that is woken on the CPU of its caller,
// which spins there, goes to another, and stays where it is otherwise, or where requests come
// seldom.
func TestWhoWakesBesideItsPeerMovesAway(t *testing.T) {
	const rounds = 200
	own := takeThread(t)
	clock := monotonic.New()
	for name, beside := range map[string]bool{"beside": true, "beside, seldom": true, "elsewhere": false} {
		seldom := name == "beside, seldom"
		caller, server, callerEnd := waiters(t, clock)
		nowNs, moves := clock.Ns(), 0
		for range rounds {
			own.runOn(own.first)
			caller.Awake()
			if !beside {
				own.runOn(own.second)
			}
			server.Awake()
			own.runOn(own.first, own.second)
			before := thisCPU(t)
			nowNs += uint64(time.Millisecond)
			if seldom {
				callerEnd.TellSleeper(nowNs)
			}
			server.Await(nowNs, nowNs, func() bool { return true })
			if thisCPU(t) != before {
				moves++
			}
			if !server.FallAsleep() {
				t.Fatal("a frame is there")
			}
		}
		if (beside && !seldom) != (moves > rounds/2) {
			t.Errorf("%s: %d moves to another CPU in %d wakes", name, moves, rounds)
		}
	}
}

// TestOneCPUEach: a server with one CPU spins for a caller that has another, while it
// has no other connection.
func TestOneCPUEach(t *testing.T) {
	own := takeThread(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	clock := monotonic.New()
	caller, server, _ := waiters(t, clock)
	spins := func() (spun bool) {
		server.Awake()
		server.Await(clock.Ns(), clock.Ns(), func() bool { spun = true; return true })
		server.FallAsleep()
		return spun
	}
	await := func(what string, want bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); spins() != want; {
			if time.Now().After(end) {
				t.Fatalf("%s: waited 20 s for spinning to be %v", what, want)
			}
		}
	}
	own.runOn(own.first)
	caller.Awake()
	await("the caller is on the same CPU", false)
	own.runOn(own.second)
	await("the caller has another CPU", true)
	otherEnd, _ := pair(t, testGeometry)
	other := sharedmemory.NewWaiter(otherEnd, clock, spin.Auto, time.Microsecond, new(sharedmemory.Sleeps))
	await("the server has another connection", false)
	other.Close()
	await("the other connection is closed", true)
}

// TestOneCPUForTheCaller: a caller whose process has one CPU spins for a server that has
// another, while no other end of the process would be held up by it, and by turns with
// goroutines that want the CPU.
func TestOneCPUForTheCaller(t *testing.T) {
	own := takeThread(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	clock := monotonic.New()
	callerEnd, serverEnd := pair(t, testGeometry)
	sleeps := new(sharedmemory.Sleeps)
	caller := sharedmemory.NewCallerWaiter(callerEnd, clock, spin.Auto, time.Microsecond, sleeps)
	defer caller.Close()
	serverRuns := func(cpu int) {
		server := sharedmemory.NewWaiter(serverEnd, clock, spin.Auto, time.Microsecond, new(sharedmemory.Sleeps))
		defer server.Close()
		own.runOn(cpu)
		server.Awake()
		own.runOn(own.first)
	}
	spins := func() (spun bool) {
		caller.Awake()
		caller.Await(clock.Ns(), clock.Ns(), func() bool { spun = true; return true })
		caller.FallAsleep()
		return spun
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !is(); {
			if time.Now().After(end) {
				t.Fatalf("waited 20 s: %s; slept %v", what, sleeps.ByCause())
			}
		}
	}
	rests := func() bool { return !spins() }
	serverRuns(own.first)
	await("the server is on the same CPU", rests)
	serverRuns(own.second)
	await("the server has another CPU", spins)
	otherEnd, _ := pair(t, testGeometry)
	other := sharedmemory.NewCallerWaiter(otherEnd, clock, spin.Auto, time.Microsecond, new(sharedmemory.Sleeps))
	await("the process has another connection", rests)
	other.Close()
	await("the other connection is closed", spins)
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for !over.Load() {
		}
	}()
	await("a goroutine wants the CPU", func() bool { spins(); return sleeps.ByCause()["crowded"] > 0 })
}
