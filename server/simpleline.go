package server

import (
	"context"
	"sync"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A simpleLine is where requests of the simple protocol wait that the reader does not
// run itself, and those behind them. A goroutine of the line runs them.
type simpleLine struct {
	ctx      context.Context // ends when the caller is gone
	cancel   context.CancelCauseFunc
	requests simpleQueue
	answered chan struct{} // closed when the goroutine ends
}

// lineOfSimple returns the line of the connection, made once.
func (r *reader) lineOfSimple() *simpleLine {
	if r.simple.line == nil {
		made := &simpleLine{answered: make(chan struct{})}
		made.ctx, made.cancel = context.WithCancelCause(context.Background())
		made.requests.init(r.connection.server.config.frameBytesMax)
		r.simple.line = made
		go made.run()
	}
	return r.simple.line
}

func (l *simpleLine) run() {
	defer close(l.answered)
	for {
		turn, found := l.requests.take()
		if !found {
			return
		}
		turn.run(l.ctx)
	}
}

// isIdle reports whether all requests that were put into the line are answered.
func (l *simpleLine) isIdle() bool { return l == nil || l.requests.isIdle() }

// queueSimple puts a request into the line, and waits until there is room for it.
func (r *reader) queueSimple(message []byte) error {
	c := r.connection
	counted := int64(simpleHeaderBytes + len(message))
	if !c.user.input.take(counted) {
		return c.user.input.refusal(counted)
	}
	number, own := r.simple.number, append([]byte(nil), message...)
	turn := simpleTurn{bytes: len(own), run: func(ctx context.Context) {
		c.runSimple(ctx, number, own)
		c.user.input.giveBack(counted)
	}}
	line := r.lineOfSimple()
	if !line.requests.hasRoom(turn) {
		c.output.flush()
		room := make(chan struct{})
		go func() {
			defer close(room)
			line.requests.awaitRoom(turn)
		}()
		c.awaitOrHangUp(room, line.cancel)
	}
	line.requests.put(turn)
	return nil
}

// runSimple runs one request of the line and answers it.
func (c *connection) runSimple(ctx context.Context, number uint64, message []byte) {
	defer c.output.flush()
	request, err := parseSimpleRequest(message)
	if err != nil {
		c.answerSimple(nil, notSimple(err))
		c.output.flush()
		c.close(nil)
		return
	}
	e, refusal := c.newSimple(ctx, number, &request)
	if refusal != nil {
		c.refuseSimple(c.service.table.byName[string(request.function)], &request, refusal)
		c.answerSimple(nil, refusal)
		return
	}
	stop := context.AfterFunc(ctx, func() { e.cancel(context.Canceled) })
	defer stop()
	if e.server.config.observer != nil {
		e.observeBegin(c.observed.Load())
	}
	e.answerSimple(e.runInTime())
}

// newSimple returns the execution of a request, or why the request is refused.
func (c *connection) newSimple(ctx context.Context, number uint64, request *simpleRequest) (*execution, error) {
	if ctx.Err() != nil {
		return nil, c.notStarted(context.Canceled)
	}
	f, timeout, refusal := c.admitSimple(request)
	if refusal != nil {
		return nil, refusal
	}
	deadlineNs := c.server.clock.Ns() + uint64(timeout)
	if c.mustHoldBack(f) {
		if refusal := c.holdBack(f, timeout, ctx.Done()); refusal != nil {
			return nil, refusal
		}
	}
	e := &execution{server: c.server, connection: c, id: number, function: f, codec: wire.CodecJSON, payload: request.arguments}
	e.context = &callContext{function: f, origin: &c.origin, deadlineNs: deadlineNs}
	if f.forward != nil {
		e.forwarded = request.toForward(f)
	}
	return e, nil
}

// runInTime runs a call within its deadline, which nobody else keeps for callers of the
// simple protocol. A function that goes on counts until it returns.
func (e *execution) runInTime() ([]byte, error) {
	c := e.connection
	if refusal := c.calls.remember(e); refusal != nil {
		return nil, refusal
	}
	finish := func() {
		c.calls.forget(e)
		c.calls.running.Done()
	}
	if err := e.enter(); err != nil {
		finish()
		return nil, err
	}
	if limit := e.function.maxRunTime; limit > 0 {
		e.context.shorten(limit)
	}
	if late := e.runWithin(); late != nil {
		go func() {
			<-late
			finish()
		}()
		return nil, e.overdue()
	}
	finish()
	return e.result, e.err
}

// simpleAheadMax is how many requests are read before the ones in front are answered.
// Together they have at most the bytes of one frame.
const simpleAheadMax = 64

// A simpleTurn is a request that waits, of so many bytes.
type simpleTurn struct {
	bytes int
	run   func(ctx context.Context)
}

// A simpleQueue holds requests that were read and wait for their turn. One goroutine
// puts them in and one takes them out.
type simpleQueue struct {
	bytesMax int

	// mu protects what follows; changed is signalled when it changes.
	mu      sync.Mutex
	changed sync.Cond
	turns   []simpleTurn
	bytes   int
	taken   bool // the one that was taken last has not ended
	closed  bool
}

func (q *simpleQueue) init(bytesMax int) {
	q.bytesMax, q.changed.L = bytesMax, &q.mu
}

// isIdle reports whether no request waits or runs.
func (q *simpleQueue) isIdle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.turns) == 0 && !q.taken
}

// hasRoom reports whether a request can be put.
func (q *simpleQueue) hasRoom(turn simpleTurn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hasRoomLocked(turn)
}

func (q *simpleQueue) hasRoomLocked(turn simpleTurn) bool {
	return len(q.turns) == 0 || len(q.turns) < simpleAheadMax && q.bytes+turn.bytes <= q.bytesMax
}

// awaitRoom waits until a request can be put.
func (q *simpleQueue) awaitRoom(turn simpleTurn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.hasRoomLocked(turn) {
		q.changed.Wait()
	}
}

// put adds a request. Preconditions: there is room for it.
func (q *simpleQueue) put(turn simpleTurn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns = append(q.turns, turn)
	q.bytes += turn.bytes
	q.changed.Signal()
}

// take waits for a request, when the one before has ended. After close there is none.
func (q *simpleQueue) take() (turn simpleTurn, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.taken = false; len(q.turns) == 0 && !q.closed; {
		q.changed.Wait()
	}
	if len(q.turns) == 0 {
		return turn, false
	}
	turn = q.turns[0]
	q.turns[0] = simpleTurn{}
	q.turns = q.turns[1:]
	q.bytes -= turn.bytes
	q.taken = true
	q.changed.Signal()
	return turn, true
}

// close is called when no more requests will be put.
func (q *simpleQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Signal()
}

// notSimple returns the error for a message that is not a request.
func notSimple(cause error) *status.Error {
	return refusedf(status.InvalidArgument, `not a request: send {"f": NAME, "a": [ARGUMENTS]} (%s)`, cause)
}
