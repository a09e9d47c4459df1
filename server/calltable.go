package server

import (
	"sync"
	"sync/atomic"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// limitDetail is the type of the error detail that names the limit by which a call was
// refused.
const limitDetail = "nearcall.limit"

// A callTable holds the calls of a connection that count as in flight, and knows which
// calls are still accepted and which are still answered. Any goroutine may use it.
type callTable struct {
	user       *user
	max        int
	perUserMax int

	// history is nil unless the caller may ask what became of its calls after the connection has
	// ended. It is set before the first call.
	history *history

	// running counts the calls that run outside the reader, and the readers.
	running sync.WaitGroup

	// accepted is the highest call id that the server has accepted. While draining, it
	// decides which calls are still answered. Only the reader writes it.
	accepted atomic.Uint64
	draining atomic.Bool

	// mu protects what follows.
	mu       sync.Mutex
	inFlight map[uint64]*execution
	asks     int    // of this caller that wait for their answers
	last     uint64 // the id in the drain frame
	framed   bool   // the welcome is sent or will be, so frames may follow
	finished bool   // the last reader has ended
	closed   bool
	reason   error         // why it was closed, nil for no particular reason
	untold   bool          // the drain frame is still to be sent
	idle     chan struct{} // see awaitIdle; nil if nobody waits
}

func (t *callTable) init(c *config, u *user) {
	t.user, t.max, t.perUserMax = u, c.callsInFlightMax, c.callsInFlightPerUserMax
	t.inFlight = make(map[uint64]*execution)
}

// remember enters a call that gets a goroutine of its own, so that it counts against the
// limits and can be cancelled. It counts as running until that goroutine says Done.
func (t *callTable) remember(e *execution) *status.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return refusedf(status.Cancelled, "the connection is closed")
	}
	if calls := len(t.inFlight) + t.asks; calls >= t.max {
		return crowdedf("calls_in_flight_max", "%d calls are in flight on this connection (limit calls_in_flight_max); the server's option WithCallsInFlight raises it to at most %d", calls, wire.CallsInFlightMaxCeiling)
	}
	if calls := t.user.calls.Add(1); calls > int64(t.perUserMax) {
		t.user.calls.Add(-1)
		return crowdedf("calls_in_flight_per_user_max", "%d calls of this user are in flight (limit calls_in_flight_per_user_max); the server's option WithCallsInFlight raises it to at most %d", calls-1, wire.CallsInFlightPerUserMaxCeiling)
	}
	t.inFlight[e.id] = e
	t.running.Add(1)
	e.marks.Set(e.id, sharedmemory.StageReceived)
	return nil
}

// beginBeside counts a goroutine that runs for the connection beside calls, until it says Done.
// It reports false if the connection is closed.
func (t *callTable) beginBeside() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Add(1)
	return true
}

// beginAsk is beginBeside for the answer to an ASK, which counts as a call in flight while it
// waits, on the connection and for its user, until endAsk. It reports false also if there is no
// room for that.
func (t *callTable) beginAsk() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.inFlight)+t.asks >= t.max {
		return false
	}
	if t.user.calls.Add(1) > int64(t.perUserMax) {
		t.user.calls.Add(-1)
		return false
	}
	t.asks++
	t.running.Add(1)
	return true
}

func (t *callTable) endAsk() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asks--
	t.user.calls.Add(-1)
}

// keep makes the table note in h how far its calls have come.
func (t *callTable) keep(h *history) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history = h
}

// crowdedf returns the error for a call for which there will be room once other calls
// have ended. Its detail tells callers' libraries that can wait to do so.
func crowdedf(limit, format string, args ...any) *status.Error {
	refusal := refusedf(status.ResourceExhausted, format, args...)
	refusal.Details = []status.Detail{{Type: limitDetail, Value: limit}}
	return refusal
}

// adoptLocked enters a call that began in a reader which has lost its role. It does not
// ask whether there is room: the call runs already.
func (t *callTable) adoptLocked(e *execution) {
	t.user.calls.Add(1)
	t.inFlight[e.id] = e
}

// forget removes a call that remember or adoptLocked entered. For a call that ends in
// time this happens just before its answer becomes visible, so that a caller that counts
// its own calls is never refused.
func (t *callTable) forget(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.inFlight, e.id)
	if t.history != nil {
		// The mark of a call that was passed on may say for ever that it has started.
		if stage := e.stageAtEnd(); t.closed || stage == sharedmemory.StageStarted || e.marks.Stage(e.id) == sharedmemory.StageOverwritten {
			t.history.settle(e.id, stage)
		}
	}
	t.user.calls.Add(-1)
	e.uncount()
	t.tellIdleLocked()
}

// awaitIdle waits until the caller has been told of the drain and no call is in flight, or the
// connection is closed. Only the reader of a connection that drains calls it, so that no call
// begins meanwhile.
func (t *callTable) awaitIdle() {
	t.mu.Lock()
	idle := make(chan struct{})
	t.idle = idle
	t.tellIdleLocked()
	t.mu.Unlock()
	<-idle
}

func (t *callTable) tellIdleLocked() {
	if t.idle != nil && (t.closed || len(t.inFlight) == 0 && !t.untold) {
		close(t.idle)
		t.idle = nil
	}
}

// lateOf returns what the next reader waits for if it has taken the role from the
// goroutine that runs the call.
func (t *callTable) lateOf(e *execution) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.late
}

// remind enters a call again that forget has removed, because its answer could not be
// sent after all.
func (t *callTable) remind(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.adoptLocked(e)
}

// find returns the call with an id, or nil if none such is in flight.
func (t *callTable) find(id uint64) *execution {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inFlight[id]
}

// accept counts an id as accepted, and reports whether its call will be answered. A drain
// may have ruled that out. Only the reader calls it.
func (t *callTable) accept(id uint64) bool {
	t.accepted.Store(max(id, t.accepted.Load()))
	return t.covers(id)
}

// covers reports whether the call with this id will be answered. While draining, the
// drain frame has told the caller the highest such id.
func (t *callTable) covers(id uint64) bool {
	if !t.draining.Load() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return id <= t.last
}

// lastCovered returns the id in the drain frame.
func (t *callTable) lastCovered() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// drain settles which calls will still be answered. If tell is true the caller can be
// told so, and whoever does that counts as running until it says Done.
func (t *callTable) drain() (tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining.Store(true)
	t.last = t.accepted.Load()
	tell = t.framed && !t.finished && !t.closed
	if tell {
		t.untold = true
		t.running.Add(1)
	}
	return tell
}

// tellsCaller reports whether there is a drain that the caller is told of.
func (t *callTable) tellsCaller() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.draining.Load() && t.framed && !t.closed
}

// told notes that the caller has been told of the drain. It is Done for that.
func (t *callTable) told() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.untold = false
	t.tellIdleLocked()
	t.running.Done()
}

// beginFrames notes that frames follow. It reports whether a drain has begun before
// that, which the caller must be told here because drain could not have it told.
func (t *callTable) beginFrames() (drainUntold bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.framed = true
	return t.draining.Load()
}

// whyClosed returns the reason with which the connection was closed.
func (t *callTable) whyClosed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason
}

// finish notes that nobody reads any more.
func (t *callTable) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished = true
}
