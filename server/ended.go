package server

import (
	"container/list"
	"crypto/rand"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
)

// callIDsMarked is the limit of the call ids that start marks can tell apart.
const callIDsMarked = 1 << 62

// A history is what the server can say of the calls of one connection: how far each of them
// came. It outlives the connection for a while, because a caller that has lost the connection
// asks over another one.
//
// Start marks say how far calls came, as they do in shared memory. They are in memory of the
// server's own until the connection is given shared memory; from then on the caller has the
// marks itself. When the connection is closed, the calls that still run are noted here as
// well, because a later call may have the mark of an earlier one, and so that somebody can
// wait until they have returned.
type history struct {
	key     wire.ConnectionKey
	account account
	// fence closes the connection, so that no call begins any more.
	fence func()

	mu    sync.Mutex
	marks *sharedmemory.Marks // nil until the first request
	// inMemoryFrom is the first id whose mark is in shared memory, 0 for none.
	inMemoryFrom uint64
	// accepted is the highest id that was accepted; while the connection lives, live has it.
	live     *atomic.Uint64
	accepted uint64
	// running are the calls that ran when the connection was closed and still do. returned says
	// how calls ended of which the marks do not say it; order is that in which they did.
	running  map[uint64]struct{}
	returned map[uint64]sharedmemory.Stage
	order    []uint64
	// packed has what was in returned when the connection ended.
	packed endings
	// changed, unless it is nil, is closed when one of them returns and when the connection ends.
	changed chan struct{}

	// These belong to the table: where the history is among those that have ended, and since when.
	inAll, inAccount *list.Element
	ended            time.Time
}

// begin makes the marks, when the first request has come.
func (h *history) begin(count int) *sharedmemory.Marks {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.marks == nil {
		h.marks = sharedmemory.NewMarks(count)
	}
	return h.marks
}

// move notes from which id on the marks are in shared memory, or with 0 that they are not.
func (h *history) move(firstID uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inMemoryFrom = firstID
}

// close notes the calls that are in flight when the connection is closed.
func (h *history) close(inFlight iter.Seq[uint64]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = make(map[uint64]struct{})
	for id := range inFlight {
		h.running[id] = struct{}{}
	}
}

// returnedMax is how many calls are noted whose marks were taken by later ones while they ran.
const returnedMax = 64

// settle notes how far a call came, now that it is over, if the marks do not say it: it ran when
// the connection was closed, or a later call has its mark, or its outcome is unknown although it is over.
func (h *history) settle(id uint64, stage sharedmemory.Stage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, id)
	if stage == sharedmemory.StageStarted || h.markLocked(id) != stage {
		if h.returned == nil {
			h.returned = make(map[uint64]sharedmemory.Stage)
		}
		h.returned[id] = stage
		h.order = append(h.order, id)
	}
	if h.running == nil && len(h.order) > returnedMax {
		delete(h.returned, h.order[0])
		h.order = slices.Delete(h.order, 0, 1)
	}
	h.changeLocked()
}

// end notes that the connection has ended, with all its calls.
func (h *history) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.packed = h.packLocked()
	h.accepted, h.live, h.running, h.fence, h.returned, h.order = h.live.Load(), nil, nil, nil, nil, nil
	h.changeLocked()
}

// endings says how calls ended, in as little memory as that takes: most are kept for nothing.
type endings struct {
	ids    []uint64 // in ascending order
	stages []sharedmemory.Stage
}

// packLocked returns how those calls ended of which the marks do not say it.
func (h *history) packLocked() endings {
	var ids []uint64
	for id, stage := range h.returned {
		if h.markLocked(id) != stage {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return endings{}
	}
	slices.Sort(ids)
	packed := endings{ids: slices.Clone(ids), stages: make([]sharedmemory.Stage, len(ids))}
	for i, id := range ids {
		packed.stages[i] = h.returned[id]
	}
	return packed
}

// of returns how a call ended, if that is known.
func (e *endings) of(id uint64) (stage sharedmemory.Stage, known bool) {
	i, known := slices.BinarySearch(e.ids, id)
	if !known {
		return sharedmemory.StageNone, false
	}
	return e.stages[i], true
}

func (h *history) changeLocked() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// stopConnection closes the connection if it is still there.
func (h *history) stopConnection() {
	h.mu.Lock()
	fence := h.fence
	h.mu.Unlock()
	if fence != nil {
		fence()
	}
}

// markLocked returns what the marks say of a call.
func (h *history) markLocked(id uint64) sharedmemory.Stage {
	switch {
	case id >= callIDsMarked, h.inMemoryFrom != 0 && id >= h.inMemoryFrom:
		return sharedmemory.StageOverwritten
	case h.marks == nil:
		return sharedmemory.StageNone
	}
	return h.marks.Stage(id)
}

// lookLocked returns how far a call came, and whether it has started and may still return. One that
// began while the connection was being closed finds out that it must not run; that is known when
// the connection ends, if not before. It looks at the mark once, because that may change meanwhile.
// Preconditions: the connection was closed, so that no call begins any more.
func (h *history) lookLocked(id uint64) (stage wire.Stage, runs bool) {
	accepted := h.accepted
	if h.live != nil {
		accepted = h.live.Load()
	}
	if id == 0 || id > accepted {
		return wire.StageNever, false
	}
	mark := h.markLocked(id)
	if _, inFlight := h.running[id]; inFlight && mark != sharedmemory.StageReceived {
		return wire.StageStarted, true
	}
	if ended, known := h.endedLocked(id); known {
		return stageOf(ended), false
	}
	return stageOf(mark), mark == sharedmemory.StageStarted && h.live != nil
}

// endedLocked returns how a call ended of which the marks do not say it.
func (h *history) endedLocked(id uint64) (stage sharedmemory.Stage, known bool) {
	if stage, known = h.returned[id]; known {
		return stage, true
	}
	return h.packed.of(id)
}

// stageOf returns what is told of a call with such a mark.
func stageOf(mark sharedmemory.Stage) wire.Stage {
	switch mark {
	case sharedmemory.StageNone, sharedmemory.StageReceived:
		// Calls that were refused have no mark.
		return wire.StageReceived
	case sharedmemory.StageStarted:
		return wire.StageStarted
	case sharedmemory.StageFinished:
		return wire.StageFinished
	}
	return wire.StageNotKept
}

// look returns a byte for each call, which says how far it came, and a channel that is closed when
// more is known, or nil if none of the calls runs.
func (h *history) look(ids []uint64) (stages []byte, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stages = make([]byte, len(ids))
	wait := false
	for i, id := range ids {
		stage, runs := h.lookLocked(id)
		stages[i], wait = byte(stage), wait || runs
	}
	if !wait {
		return stages, nil
	}
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return stages, h.changed
}

// await waits until none of the calls runs, or until there is no time left. It returns how far they came.
func (h *history) await(ids []uint64, limit time.Duration) []byte {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		stages, changed := h.look(ids)
		if changed == nil {
			return stages
		}
		select {
		case <-changed:
		case <-timer.C:
			stages, _ = h.look(ids)
			return stages
		}
	}
}

// userPart is the part of the ended connections that one user may have.
const userPart = wire.EndedConnectionsMax / wire.EndedConnectionsPerUserMax

// A historyTable finds the histories of connections by their keys. Those of connections that
// have ended are kept for a time, and at most so many of them.
type historyTable struct {
	max  int
	keep time.Duration

	// mu protects what follows.
	mu        sync.Mutex
	byKey     map[wire.ConnectionKey]*history
	ended     list.List              // the first has ended first
	ofAccount map[account]*list.List // in the same order
	sweeping  bool
}

func (t *historyTable) init(c *config) {
	t.max, t.keep = c.endedConnectionsMax, c.endedConnectionKeep
	t.byKey, t.ofAccount = make(map[wire.ConnectionKey]*history), make(map[account]*list.List)
}

// begin enters a connection. live has the highest id that it has accepted, and fence closes it.
func (t *historyTable) begin(of account, live *atomic.Uint64, fence func()) *history {
	h := &history{account: of, live: live, fence: fence}
	rand.Read(h.key[:])
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKey[h.key] = h
	return h
}

// find returns what is known of a connection, or nil.
func (t *historyTable) find(key wire.ConnectionKey) *history {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropOldLocked(time.Now())
	return t.byKey[key]
}

// end keeps the history of a connection that has ended. Others may have to go for it: those of
// its user, or those that have ended first.
func (t *historyTable) end(h *history) {
	h.end()
	t.mu.Lock()
	defer t.mu.Unlock()
	h.ended = time.Now()
	t.dropOldLocked(h.ended)
	ofAccount := t.ofAccount[h.account]
	if ofAccount == nil {
		ofAccount = list.New()
		t.ofAccount[h.account] = ofAccount
	}
	h.inAll, h.inAccount = t.ended.PushBack(h), ofAccount.PushBack(h)
	if ofAccount.Len() > max(1, t.max/userPart) {
		t.dropLocked(ofAccount.Front().Value.(*history))
	}
	if t.ended.Len() > t.max {
		t.dropLocked(t.ended.Front().Value.(*history))
	}
	if !t.sweeping {
		t.sweeping = true
		time.AfterFunc(t.keep, t.sweep)
	}
}

func (t *historyTable) dropLocked(h *history) {
	delete(t.byKey, h.key)
	t.ended.Remove(h.inAll)
	ofAccount := t.ofAccount[h.account]
	ofAccount.Remove(h.inAccount)
	if ofAccount.Len() == 0 {
		delete(t.ofAccount, h.account)
	}
}

// dropOldLocked drops what was kept for long enough.
func (t *historyTable) dropOldLocked(now time.Time) {
	for oldest := t.ended.Front(); oldest != nil; oldest = t.ended.Front() {
		h := oldest.Value.(*history)
		if now.Sub(h.ended) < t.keep {
			return
		}
		t.dropLocked(h)
	}
}

// sweep drops what is old on a server on which nothing else happens.
func (t *historyTable) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.dropOldLocked(now)
	oldest := t.ended.Front()
	if t.sweeping = oldest != nil; t.sweeping {
		time.AfterFunc(t.keep-now.Sub(oldest.Value.(*history).ended), t.sweep)
	}
}

// count returns how many ended connections are known.
func (t *historyTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended.Len()
}
