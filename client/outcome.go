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

// ErrClosed is behind the errors of calls on a client that was closed.
var ErrClosed = errors.New("the client was closed")

var (
	errLeft       = errors.New("no call waits for it")
	errNotReading = fmt.Errorf("the server took no byte for %v", writeTimeout)
	errStalled    = fmt.Errorf("the server stopped within a frame for %v", frameTimeout)
)

func notExecuted(code status.Code, format string, args ...any) *status.Error {
	return status.Errorf(code, format, args...).With(status.OutcomeNotExecuted)
}

// logEnd tells the log what ended the connection.
func (c *connection) logEnd(why *loss, calls int) {
	level := slog.LevelDebug
	switch {
	case why.protocol:
		level = slog.LevelWarn
	case calls > 0:
		level = slog.LevelInfo
	}
	c.client.log.Log(context.Background(), level, "connection ended", "address", c.client.address, "cause", lossText(why), "calls", calls)
}

// A loss is why a connection ended.
type loss struct {
	cause error
	// reset: the kernel reported ECONNRESET.
	reset bool
	// protocol: the server broke the protocol.
	protocol bool
}

// whyEnded makes a loss of what the reader or this side's closing says.
// Preconditions: c.mu is held.
func (c *connection) whyEnded(cause error) *loss {
	if c.closing != nil {
		return c.closing
	}
	why := &loss{cause: cause}
	_, writeFailure := c.output.state()
	// A write can meet the reset first; then the read meets plain end of file.
	why.reset = errors.Is(cause, syscall.ECONNRESET) || errors.Is(writeFailure, syscall.ECONNRESET)
	var broken *wire.ProtocolError
	why.protocol = errors.As(cause, &broken) || errors.Is(cause, transport.ErrDescriptors)
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		why.cause = errStalled
	}
	return why
}

// An ending is what was known of a connection when it ended; it decides the
// outcomes of the calls that waited.
type ending struct {
	address string
	why     *loss
	local   bool
	// alone: only one call was in flight, those given up included.
	alone           bool
	takenID, lastID uint64
	partial         partialFrame
	// memory holds the start marks, if there are any. final: the server closed
	// the connection, so they do not change any more.
	memory *memory
	final  bool
}

// survey collects the evidence. Preconditions: c.mu is held.
func (c *connection) survey(why *loss) *ending {
	c.output.sendMu.Lock()
	defer c.output.sendMu.Unlock()
	e := &ending{address: c.client.address.String(), why: why, local: c.local, alone: c.pending.used == 1, partial: c.partial}
	e.takenID, e.lastID = c.output.progress()
	e.memory, e.final = c.memory, c.closing == nil && !why.protocol && (isEOF(why.cause) || why.reset)
	return e
}

// failureOf is the table "From event to outcome" for connections that ended.
func (e *ending) failureOf(r *call) *status.Error {
	if !r.inMemory && r.id > e.takenID {
		return e.failure(status.OutcomeNotExecuted)
	}
	if code, outcome, found := e.partial.tells(r.id, e.alone); found && !e.why.protocol {
		failure := e.failure(outcome)
		if code != status.OK {
			failure.Code = code
		}
		return failure
	}
	if e.memory.marked(r.id) && !e.why.protocol {
		return e.failure(e.memory.outcomeOf(r.id, e.final))
	}
	// The kernel reports a reset when bytes were left unread. The last frame
	// was then not read to its end, and a server starts whole frames only.
	if e.local && e.why.reset && e.alone && e.lastID == r.id {
		return e.failure(status.OutcomeNotExecuted)
	}
	return e.failure(status.OutcomeUnknown)
}

// unsent reports whether the server cannot have taken any notice of a request.
func (e *ending) unsent(r *call) bool {
	if !r.inMemory && r.id > e.takenID {
		return true
	}
	return e.final && e.memory.stage(r.id) == sharedmemory.StageNone
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
	case why.reset:
		return "the server closed it before reading all (connection reset); did it stop or crash?"
	case isEOF(why.cause):
		return "the server closed it; its log may say why"
	case why.protocol:
		return why.cause.Error() + "; do client and server have versions that fit?"
	}
	return why.cause.Error()
}

// A partialFrame holds as much of a frame's header as has arrived of a frame
// that is not complete; n is 0 when there is none.
type partialFrame struct {
	head [wire.HeaderBytes]byte
	n    int
}

const (
	// Bytes of a header after which a frame's type and its call's id are known.
	typeKnownBytes = 5
	idKnownBytes   = 16
)

// tells what half a frame says about a call: a reply shows that the function
// has run, and an error's header holds code and outcome. alone means that no
// other call could be meant. The code is OK where it adds nothing.
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

// endOfWaiting is the error of a call whose deadline passed or whose context
// ended; its outcome is set by the caller.
func endOfWaiting(ctx context.Context, what string) *status.Error {
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.Is(ctx.Err(), context.DeadlineExceeded):
		return status.Errorf(status.DeadlineExceeded, "the deadline passed %s", what)
	default:
		return &status.Error{Code: status.Cancelled, Message: "the caller cancelled " + what, Cause: cause}
	}
}
