package hostile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory/memorytest"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/tests/processes"
)

const (
	trapTimeout = 20 * time.Second
	measured    = time.Second // calls are made for so long, and threads counted
	threadsMore = 40
	// The middle one of many calls takes at most so many times what it takes beside nothing.
	// With a scheduler that is held it takes some thousand times as long.
	heldUpRatioMax = 20
	heldUpAtMost   = 500 * time.Millisecond // each of them
)

// A watched server is called all the time by somebody who has nothing to do with its attackers.
type watched struct {
	server  *processes.Process
	caller  *memorytest.Caller
	witness *processes.Witness
	threads int // before anybody attacked
	most    int // how many more there were

	threadsMax int // how many more there may be
}

func watch(t *testing.T, server *processes.Process, path string) *watched {
	t.Helper()
	c, err := memorytest.Connect(path, time.Minute, wire.FeatureSharedClock)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{server: server, caller: c, witness: processes.NewWitness(), threads: server.Threads(t), threadsMax: threadsMore}
	t.Cleanup(func() {
		w.witness.Close()
		c.Close()
	})
	return w
}

// callsFor makes one call after the other for some time, and returns what they took.
func (w *watched) callsFor(t *testing.T, length time.Duration) []time.Duration {
	t.Helper()
	end := time.Now().Add(length)
	return w.callsWhile(t, func() bool { return time.Now().Before(end) })
}

// callsDuring is callsFor as long as something else happens.
func (w *watched) callsDuring(t *testing.T, what func()) []time.Duration {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		what()
	}()
	defer func() { <-over }()
	return w.callsWhile(t, func() bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	})
}

func (w *watched) callsWhile(t *testing.T, goOn func() bool) (took []time.Duration) {
	t.Helper()
	for goOn() {
		begin := time.Now()
		if err := w.caller.Conn.SetDeadline(begin.Add(trapTimeout)); err != nil {
			t.Fatal(err)
		}
		request := w.caller.Request("echo", []byte("x"))
		if err := w.caller.Put(&request); err != nil {
			t.Fatal(err)
		}
		if _, err := w.caller.Next(); err != nil {
			t.Fatalf("after %d calls one is not answered within %v: %v", len(took), trapTimeout, err)
		}
		took = append(took, time.Since(begin))
		w.most = max(w.most, w.server.Threads(t)-w.threads)
	}
	return took
}

// judge compares the calls beside an attack with those beside none. What this machine
// delayed anybody, the attack did not.
func (w *watched) judge(t *testing.T, quiet, attacked []time.Duration) {
	t.Helper()
	slices.Sort(quiet)
	slices.Sort(attacked)
	usual, middle, worst := quiet[len(quiet)/2], attacked[len(attacked)/2], attacked[len(attacked)-1]
	t.Logf("the middle one of %d calls took %v, of %d beside no attack %v; the longest %v; %d more threads",
		len(attacked), middle, len(quiet), usual, worst, w.most)
	if middle > heldUpRatioMax*usual {
		t.Errorf("calls take %v, and %v beside no attack: more than %d times as long", middle, usual, heldUpRatioMax)
	}
	if worst > heldUpAtMost && !w.witness.Explains(worst-heldUpAtMost) {
		t.Errorf("one call took %v, and this machine was late by %v at most", worst, w.witness.Lateness())
	}
	if w.most > w.threadsMax {
		t.Errorf("%d more threads than before, want at most %d", w.most, w.threadsMax)
	}
}
