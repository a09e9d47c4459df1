package server

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

// TestHistoriesAreBounded: what is kept of ended connections does not grow with their number, and no
// user makes the server forget those of another.
func TestHistoriesAreBounded(t *testing.T) {
	var table historyTable
	table.init(&config{endedConnectionsMax: wire.EndedConnectionsMax, endedConnectionKeep: time.Hour})
	end := func(userID uint32) wire.ConnectionKey {
		h := table.begin(account{local: true, userID: userID}, new(atomic.Uint64), func() {})
		table.end(h)
		return h.key
	}
	quiet := end(1)
	for range 200_000 {
		end(2)
	}
	if table.find(quiet) == nil {
		t.Error("a user with many connections made the server forget that of another")
	}
	for user := range uint32(20_000) {
		end(user)
	}
	if table.find(quiet) != nil {
		t.Error("a connection is remembered after as many as are kept have ended")
	}
	if len(table.byKey) != table.max || table.ended.Len() != table.max || len(table.ofAccount) != table.max {
		t.Errorf("%d histories, %d in order, of %d users, want %d of each", len(table.byKey), table.ended.Len(), len(table.ofAccount), table.max)
	}
	if kept := table.count(); kept != table.max {
		t.Errorf("%d ended connections are counted, want %d", kept, table.max)
	}
}

// TestCallsInFlightAtTheEndTakeLittle: a user can end many connections with as many calls in
// flight as are allowed, and of each it stays known for a while how they ended.
func TestCallsInFlightAtTheEndTakeLittle(t *testing.T) {
	const (
		histories = 64
		others    = 2560 // bytes of one without such calls
		perCall   = 10   // with what the allocator rounds up
		most      = others + perCall*wire.CallsInFlightMax
	)
	var table historyTable
	table.init(&config{endedConnectionsMax: userPart * histories, endedConnectionKeep: time.Hour})
	stageOf := func(id uint64) sharedmemory.Stage {
		return []sharedmemory.Stage{sharedmemory.StageReceived, sharedmemory.StageStarted, sharedmemory.StageFinished}[id%3]
	}
	before := heapInUse()
	var last *history
	for range histories {
		accepted := new(atomic.Uint64)
		last = table.begin(account{}, accepted, func() {})
		marks := last.begin(wire.KeptMarksRemote)
		for id := uint64(1); id <= wire.CallsInFlightMax; id++ {
			accepted.Store(id)
			marks.Set(id, sharedmemory.StageStarted)
		}
		last.close(func(yield func(uint64) bool) {
			for id := uint64(1); id <= wire.CallsInFlightMax && yield(id); id++ {
			}
		})
		for id := uint64(1); id <= wire.CallsInFlightMax; id++ {
			marks.Set(id, stageOf(id))
			last.settle(id, stageOf(id))
		}
		table.end(last)
	}
	if each := (heapInUse() - before) / histories; each > most {
		t.Errorf("a connection that has ended with %d calls in flight takes %d bytes, want at most %d", wire.CallsInFlightMax, each, most)
	}
	want := []byte{byte(wire.StageReceived), byte(wire.StageStarted), byte(wire.StageFinished)}
	for id := uint64(1); id <= wire.CallsInFlightMax; id++ {
		if stages, _ := last.look([]uint64{id}); stages[0] != want[id%3] {
			t.Fatalf("call %d is at stage %d, want %d", id, stages[0], want[id%3])
		}
	}
	runtime.KeepAlive(&table)
}

// heapInUse returns what is in use of the heap.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

// TestCallThatBeginsWhileItsConnectionCloses: its mark says for a moment that it has started, although
// it will not run. That is not taken for an answer before it is known.
func TestCallThatBeginsWhileItsConnectionCloses(t *testing.T) {
	var table historyTable
	table.init(&config{endedConnectionsMax: 1, endedConnectionKeep: time.Hour})
	accepted := new(atomic.Uint64)
	h := table.begin(account{}, accepted, func() {})
	marks := h.begin(wire.KeptMarks)
	accepted.Store(3)
	h.close(func(func(uint64) bool) {})
	marks.Set(3, 2)
	_, changed := h.look([]uint64{3})
	if changed == nil {
		t.Fatal("nobody waits for a call that has perhaps started")
	}
	marks.Set(3, 1)
	table.end(h)
	<-changed
	if stages, _ := h.look([]uint64{3}); stages[0] != byte(wire.StageReceived) {
		t.Errorf("the call is at stage %d, want %d", stages[0], wire.StageReceived)
	}
}

// TestCallThatBeginsWhileItIsAskedAbout: an answer says that a call has started only if that was
// waited for.
func TestCallThatBeginsWhileItIsAskedAbout(t *testing.T) {
	var table historyTable
	table.init(&config{endedConnectionsMax: 1, endedConnectionKeep: time.Hour})
	accepted := new(atomic.Uint64)
	h := table.begin(account{}, accepted, func() {})
	marks := h.begin(wire.KeptMarks)
	accepted.Store(1)
	h.close(func(func(uint64) bool) {})
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for !stop.Load() {
			marks.Set(1, sharedmemory.StageReceived)
			marks.Set(1, sharedmemory.StageStarted)
		}
	}()
	for range 1_000_000 {
		if stages, changed := h.look([]uint64{1}); changed == nil && stages[0] == byte(wire.StageStarted) {
			t.Error("a call has started, and there is nothing to wait for")
			break
		}
	}
	stop.Store(true)
	<-stopped
}
