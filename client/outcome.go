package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// ErrClosed is the cause of the errors of calls on a client that has been closed.
var ErrClosed = errors.New("the client was closed")

var (
	errLeft       = errors.New("no call waits for it")
	errNotReading = fmt.Errorf("the server took no byte for %v", writeTimeout)
	errStalled    = fmt.Errorf("the server stopped within a frame for %v", frameTimeout)
)

func notExecuted(code status.Code, format string, args ...any) *status.Error {
	return status.Errorf(code, format, args...).With(status.OutcomeNotExecuted)
}

// logEnd logs what ended the connection.
func (c *connection) logEnd(why *loss, calls int) {
	level := slog.LevelDebug
	switch {
	case why.protocol:
		level = slog.LevelWarn
	case calls > 0:
		level = slog.LevelInfo
	}
	c.client.log.Log(context.Background(), level, "connection ended", "address", c.endpoint.address, "cause", lossText(why), "calls", calls)
}

// A loss is why a connection ended.
type loss struct {
	cause error
	// reset is set if the carrier reported ECONNRESET, and unread if that says that the
	// server left bytes unread.
	reset, unread bool
	// protocol is set if the server broke the protocol.
	protocol bool
}

// whyEnded makes a loss of what the reader has met, or of the reason for which this
// side closed the connection. Preconditions: c.mu is held.
func (c *connection) whyEnded(cause error) *loss {
	if c.closing != nil {
		return c.closing
	}
	why := &loss{cause: cause}
	_, writeFailure := c.output.done()
	// A write can meet the reset first; then the read meets a plain end of file.
	why.reset = errors.Is(cause, syscall.ECONNRESET) || errors.Is(writeFailure, syscall.ECONNRESET)
	why.unread = why.reset && c.carrier.Certainty() == transport.UnreadReported
	var broken *wire.ProtocolError
	why.protocol = errors.As(cause, &broken) || errors.Is(cause, transport.ErrDescriptors)
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		why.cause = errStalled
	}
	return why
}

// An ending is what was known of a connection when it ended. It decides the outcomes of
// the calls that were waiting.
type ending struct {
	address string
	why     *loss
	// alone is set if only one call was in flight. Calls that were given up count too.
	alone           bool
	takenID, lastID uint64
	partial         partialFrame
	// final is set if the server closed the connection, so that the start marks cannot
	// change any more.
	marks startMarks
	final bool
	// undelivered is set if the carrier says that nothing was delivered from this byte on.
	undelivered     bool
	undeliveredFrom uint64
}

// survey collects the evidence for an ending. Preconditions: c.mu is held.
func (c *connection) survey(why *loss) *ending {
	c.output.sendMu.Lock()
	defer c.output.sendMu.Unlock()
	e := &ending{address: c.endpoint.address.String(), why: why, alone: c.calls.used == 1, partial: c.partial}
	e.takenID, e.lastID = c.output.progress()
	e.marks, e.final = c.marks, c.closing == nil && !why.protocol && (isEOF(why.cause) || why.reset)
	if c.counted != nil {
		e.undeliveredFrom, e.undelivered = c.counted.of.UndeliveredFrom()
	}
	return e
}

// failureOf applies the table "From event to outcome" of spec/call-semantics.md to a
// call on a connection that has ended.
func (e *ending) failureOf(r *call) *status.Error {
	if !r.inMemory && r.id > e.takenID || e.neverArrived(r) {
		return e.failure(status.OutcomeNotExecuted)
	}
	if code, outcome, found := e.partial.tells(r.id, e.alone); found && !e.why.protocol {
		failure := e.failure(outcome)
		if code != status.OK {
			failure.Code = code
		}
		return failure
	}
	if e.marks.marked(r.id) && !e.why.protocol {
		return e.failure(e.marks.outcomeOf(r.id, e.final))
	}
	// Unread bytes say that the server has not read the last frame to its end, and a
	// server starts only what it has read whole.
	if e.why.unread && e.alone && e.lastID == r.id {
		return e.failure(status.OutcomeNotExecuted)
	}
	return e.failure(status.OutcomeUnknown)
}

// unsent reports whether the server cannot have noticed the request at all.
func (e *ending) unsent(r *call) bool {
	if !r.inMemory && r.id > e.takenID {
		return true
	}
	return e.final && e.marks.stage(r.id) == sharedmemory.StageNone
}

func (e *ending) failure(outcome status.Outcome) *status.Error {
	code := status.Unavailable
	switch {
	case errors.Is(e.why.cause, ErrClosed):
		code = status.Cancelled
	case e.why.protocol && outcome != status.OutcomeNotExecuted:
		code = status.Internal
	}
	return &status.Error{Code: code, Outcome: outcome, Cause: e.why.cause,
		Message: fmt.Sprintf("the connection to %s was lost: %s", e.address, lossText(e.why))}
}

// lossText says in words what ended the connection, and what to look at.
func lossText(why *loss) string {
	switch {
	case why.unread:
		return "the server closed it before reading all (connection reset); did it stop or crash?"
	case why.reset:
		return "it was reset on the way or by the server, which may have stopped or crashed"
	case isEOF(why.cause):
		return "the server closed it; its log may say why"
	case why.protocol:
		return why.cause.Error() + "; do client and server have versions that fit?"
	}
	return why.cause.Error()
}

// A partialFrame holds the beginning of the header of a frame that is not complete: as
// much of it as has arrived. n is 0 if there is no such frame.
type partialFrame struct {
	head [wire.HeaderBytes]byte
	n    int
}

const (
	// After so many bytes of a header the frame's type and the id of its call are
	// known.
	typeKnownBytes = 5
	idKnownBytes   = 16
)

// tells returns what a part of a frame says about a call: a reply shows that the
// function has run, and the header of an error holds its code and outcome. alone means
// that the frame cannot belong to any other call. The code is OK if the header has
// none.
func (p *partialFrame) tells(id uint64, alone bool) (status.Code, status.Outcome, bool) {
	header := wire.ParseHeader(p.head[:])
	known := p.n >= idKnownBytes && header.CallID == id
	switch {
	case p.n < typeKnownBytes:
	case header.Type == wire.Reply && (known || alone && p.n < idKnownBytes):
		return status.OK, status.OutcomeExecutedResultLost, true
	case header.Type == wire.Error && known && p.n == wire.HeaderBytes:
		code, outcome, valid := wire.SplitStatus(header.Status)
		return status.Code(code), status.Outcome(outcome), valid && outcome != 0
	}
	return status.OK, status.OutcomeNone, false
}

// endOfWaiting returns the error of a call whose deadline has passed or whose context
// has ended. The caller sets its outcome.
func endOfWaiting(ctx context.Context, what string) *status.Error {
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(ctx.Err(), context.DeadlineExceeded):
		return status.Errorf(status.DeadlineExceeded, "the deadline passed %s", what)
	default:
		return &status.Error{Code: status.Cancelled, Message: "the caller cancelled " + what, Cause: cause}
	}
}
