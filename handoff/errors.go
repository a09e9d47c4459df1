package handoff

import (
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// What errors.Is finds in an Error, besides net.ErrClosed, os.ErrDeadlineExceeded,
// the errors of contexts and errors.ErrUnsupported.
var (
	// ErrRefused: the peer answered that it does not take this.
	ErrRefused = errors.New("handoff: refused")
	// ErrNoDescriptor: the descriptor did not arrive, because the peer has as many
	// as it may or a security module forbade it. It is refused too.
	ErrNoDescriptor = errors.New("handoff: the descriptor did not arrive")
	// ErrDraining: the peer takes no more. It is refused too, where it was answered.
	ErrDraining = errors.New("handoff: the peer takes no more")
	// ErrTooLarge: the prefix, the message, a name, or what was peeked at is longer
	// than agreed; nothing was sent.
	ErrTooLarge = frame.ErrTooLarge
	// ErrProtocol: the peer does not keep to the protocol.
	ErrProtocol = frame.ErrProtocol
)

// A Reason is why a peer refused, as spec/handoff.md numbers it; 0: it did not.
type Reason = frame.Reason

// The reasons.
const (
	ReasonBusy         = frame.Busy
	ReasonNoDescriptor = frame.NoDescriptor
	ReasonKind         = frame.WrongKind
	ReasonDraining     = frame.Draining
	ReasonDenied       = frame.Denied
	ReasonRecalled     = frame.Recalled
)

// An Error says what failed with whom. What was to be given is still the caller's,
// open and untouched. It implements net.Error.
type Error struct {
	// Op is what was tried, as "dial", "give", "want", "ping", "hand back" or "peek".
	Op string
	// Address is the peer's, where it has one.
	Address string
	// ID is the number of the handoff on its channel; 0: nothing was sent.
	ID     uint64
	Reason Reason
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	where := ""
	if e.Address != "" {
		where = " " + e.Address
	}
	return fmt.Sprintf("handoff: %s%s: %v", e.Op, where, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is finds the sentinel of the reason.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrRefused:
		return e.Reason != 0
	case ErrNoDescriptor:
		return e.Reason == ReasonNoDescriptor
	case ErrDraining:
		return e.Reason == ReasonDraining
	}
	return false
}

// Timeout implements net.Error.
func (e *Error) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// Temporary implements net.Error: what a peer refused because it is busy or lacks
// descriptors may be tried again.
func (e *Error) Temporary() bool { return e.Reason == ReasonBusy || e.Reason == ReasonNoDescriptor }
