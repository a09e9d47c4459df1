package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

const (
	// Pauses before the server is connected to again, in order to ask it.
	askPauseMin = time.Millisecond
	askPauseMax = 50 * time.Millisecond
	// askFor is for how long a call without a deadline may ask; the server does not remember a
	// connection for longer.
	askFor = wire.EndedConnectionMs * time.Millisecond
	// askForElsewhere is for how long it may ask if the address has other endpoints, which calls
	// should go to soon.
	askForElsewhere = wire.TcpSilenceMs * time.Millisecond
)

// A lostConnection is one that has ended while calls waited of which this side cannot tell what
// became of them. The server that it led to can be asked about them over another connection:
// that ends the lost one for the server too, so that what was not started never will be.
type lostConnection struct {
	endpoint *endpoint // that it led to
	instance uint64
	key      wire.ConnectionKey
	ids      []uint64 // of these calls
	latestNs uint64   // the latest of their deadlines
	limitNs  uint64   // when asking ends in any case

	// One question is about all of them. The first call that asks has it sent; it is given up
	// when no call waits for the answer any more.
	once     sync.Once
	waiting  atomic.Int32
	abort    context.CancelFunc
	answered chan struct{}
	stages   map[uint64]wire.Stage // may be read once answered is closed; what was not said is missing
}

// noteLost notes the calls about which the server can be asked, now that their connection has ended.
// Preconditions: their failures are known, and they are not finished.
func (c *connection) noteLost(calls []*call) {
	if !c.takesAsks() {
		return
	}
	var lost *lostConnection
	for _, r := range calls {
		if r.frameType != wire.Request || r.expired || !isUnknown(r.failure) {
			continue
		}
		if lost == nil {
			lost = &lostConnection{endpoint: c.endpoint, instance: c.welcome.Instance, key: c.welcome.Key,
				limitNs: c.client.clock.Ns() + uint64(c.endpoint.askFor()), answered: make(chan struct{})}
		}
		r.lost, lost.ids = lost, append(lost.ids, r.id)
		lost.latestNs = max(lost.latestNs, r.deadlineNs)
		lost.waiting.Add(1)
	}
}

// askFor returns for how long calls may ask after a connection to the endpoint was lost.
func (e *endpoint) askFor() time.Duration {
	if e.route != nil && e.route.hasOthers(e) {
		return askForElsewhere
	}
	return askFor
}

// takesAsks reports whether the server can be asked about calls of other connections, and about
// those of this one.
func (c *connection) takesAsks() bool {
	return c.welcome.Accepted&wire.FeatureAsks != 0 && c.welcome.Key != wire.ConnectionKey{}
}

func isUnknown(failure *status.Error) bool {
	return failure.Code == status.Unavailable && failure.Outcome == status.OutcomeUnknown
}

// ask asks the server what became of a call whose connection was lost. It returns the failure
// with the outcome that follows from the answer, or as it is if there is none before the deadline.
func (c *core) ask(ctx context.Context, r *call, failure *status.Error) *status.Error {
	lost := r.lost
	if lost == nil {
		return failure
	}
	r.lost = nil
	defer lost.leave()
	if !isUnknown(failure) || ctx.Err() != nil || c.remaining(r.deadlineNs) == 0 {
		return failure
	}
	stage, told := wire.StageStarted, true
	if len(lost.ids) > 1 {
		stage, told = c.awaitAnswer(ctx, r, lost)
	}
	if told && stage == wire.StageStarted {
		// The server waits for the function to return, which is this call's affair alone.
		answer := c.askServer(ctx, lost, []uint64{r.id}, min(r.deadlineNs, lost.limitNs), false)
		if told = answer != nil; told {
			stage = wire.Stage(answer[0])
		}
	}
	if !told {
		return failure
	}
	return withStage(failure, stage)
}

// withStage adds to a failure what the server says of the call.
func withStage(failure *status.Error, stage wire.Stage) *status.Error {
	said, text := *failure, ""
	switch stage {
	case wire.StageNever, wire.StageReceived:
		said.Outcome, text = status.OutcomeNotExecuted, "the function was not started"
	case wire.StageStarted:
		text = "the function was started and is not known to have returned"
	case wire.StageFinished:
		said.Outcome, text = status.OutcomeExecutedResultLost, "the function had returned"
	default:
		text = "it does not know the call any more"
	}
	said.Message += "; the server says that " + text
	return &said
}

// awaitAnswer waits for what the server says of a call, in the answer about all calls that were lost
// with it.
func (c *core) awaitAnswer(ctx context.Context, r *call, lost *lostConnection) (stage wire.Stage, told bool) {
	lost.once.Do(func() {
		asking, abort := context.WithCancel(c.life)
		lost.abort = abort
		go c.askAboutAll(asking, lost)
	})
	timer := c.timer(r.deadlineNs)
	defer timer.Stop()
	select {
	case <-lost.answered:
		stage, told = lost.stages[r.id]
	case <-ctx.Done():
	case <-timer.C:
	}
	return stage, told
}

// leave is called when a call does not ask any more.
func (l *lostConnection) leave() {
	if l.waiting.Add(-1) > 0 {
		return
	}
	// No call can begin to ask any more, and each that did has set abort before it came here.
	if l.abort != nil {
		l.abort()
	}
}

// askAboutAll asks the server about all calls of a connection that was lost. The answer does not
// wait for functions, so that no call is kept waiting for the function of another.
func (c *core) askAboutAll(ctx context.Context, lost *lostConnection) {
	defer close(lost.answered)
	defer lost.abort()
	lost.stages = make(map[uint64]wire.Stage, len(lost.ids))
	for ids := range slices.Chunk(lost.ids, wire.AskedCallsMax) {
		answer := c.askServer(ctx, lost, ids, min(lost.latestNs, lost.limitNs), true)
		if answer == nil {
			return
		}
		for i, id := range ids {
			lost.stages[id] = wire.Stage(answer[i])
		}
	}
}

// askServer asks about calls of a connection that was lost, and returns a stage for each, or nil
// if nobody can tell any more. If the server is there and out of reach, it is tried again.
func (c *core) askServer(ctx context.Context, lost *lostConnection, ids []uint64, deadlineNs uint64, atOnce bool) []byte {
	q := c.take()
	defer c.give(q)
	q.frameType, q.codec, q.name = wire.Ask, wire.CodecRaw, "ask"
	q.payload, q.deadlineNs = wire.AppendAsk(nil, lost.key, ids), deadlineNs
	for pause := askPauseMin; ; pause = min(2*pause, askPauseMax) {
		failure := c.askOnce(ctx, q, lost, atOnce)
		c.log.Debug("asked what became of calls", "address", lost.endpoint.address, "calls", len(ids), "failure", asError(failure))
		if failure == nil {
			return slices.Clone(q.reply)
		}
		if failure.Code != status.Unavailable || nobodyListens(failure) || !c.sleep(ctx, q, pause) {
			return nil
		}
	}
}

// nobodyListens reports whether a server could not be reached because there is none: the one that
// is to be asked has ended, or is stopping.
func nobodyListens(failure *status.Error) bool {
	return errors.Is(failure.Cause, syscall.ECONNREFUSED) || errors.Is(failure.Cause, fs.ErrNotExist)
}

// sleep makes a pause. It returns false when the deadline has passed or the caller gives up.
func (c *core) sleep(ctx context.Context, q *call, pause time.Duration) bool {
	timer := time.NewTimer(min(pause, c.remaining(q.deadlineNs)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return c.remaining(q.deadlineNs) > 0
	case <-ctx.Done():
	case <-c.life.Done():
	}
	return false
}

// askOnce sends a question on a connection to the same endpoint: the one in use, or a new one.
func (c *core) askOnce(ctx context.Context, q *call, lost *lostConnection, atOnce bool) *status.Error {
	for {
		q.startNs = c.clock.Ns()
		current, failure := lost.endpoint.connect(ctx, q.deadlineNs)
		if failure != nil {
			return failure
		}
		if !current.takesAsks() || current.welcome.Instance != lost.instance {
			return notExecuted(status.FailedPrecondition, "another server answers at %s", lost.endpoint.address)
		}
		if failure := current.prepare(q); failure != nil {
			return failure
		}
		if atOnce {
			q.header.Deadline = current.noTime()
		}
		failure, usable := current.perform(ctx, q)
		switch {
		case failure != nil:
			return failure
		case usable:
			return current.checkAnswer(q)
		}
	}
}

// noTime returns the deadline field of an ASK whose answer is not to wait for anything.
func (c *connection) noTime() uint32 {
	return wire.DeadlineField((c.client.clock.Ns()+c.clockAheadNs)/uint64(time.Millisecond), 0, c.sharedClock())
}

// checkAnswer ends the connection if the answer to an ASK is none.
func (c *connection) checkAnswer(q *call) *status.Error {
	_, ids, _ := wire.ParseAsk(q.payload)
	if len(q.reply) == len(ids) && q.replyCodec == wire.CodecRaw && q.functionID == 0 {
		return nil
	}
	violation := &wire.ProtocolError{Text: fmt.Sprintf("an answer of %d bytes to an ASK about %d calls, with codec %v and function id %d", len(q.reply), len(ids), q.replyCodec, q.functionID)}
	c.close(&loss{cause: violation, protocol: true})
	return &status.Error{Code: status.Internal, Outcome: status.OutcomeUnknown, Message: violation.Text, Cause: violation}
}
