package handoff

import (
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// These are found in an Error by errors.Is, besides net.ErrClosed,
// os.ErrDeadlineExceeded, the errors of contexts, and errors.ErrUnsupported.
var (
	// ErrRefused means that the peer has answered that it does not take this.
	ErrRefused = errors.New("handoff: refused")
	// ErrNoDescriptor means that the descriptor did not arrive, because the peer has as
	// many open as it may, or because a security module forbade it. Such an error is
	// ErrRefused, too.
	ErrNoDescriptor = errors.New("handoff: the descriptor did not arrive")
	// ErrDraining means that the peer takes no more, because it is stopping. If the
	// peer has answered so, the error is ErrRefused, too.
	ErrDraining = errors.New("handoff: the peer takes no more")
	// ErrTooLarge means that the prefix, the message, a name, or what was peeked at is
	// longer than allowed. Nothing was sent.
	ErrTooLarge = frame.ErrTooLarge
	// ErrProtocol means that the peer has broken the protocol.
	ErrProtocol = frame.ErrProtocol
)

// A Reason says why a peer has refused; the numbers are those of spec/handoff.md. 0
// means that it has not.
type Reason uint8

// These are the reasons.
const (
	// ReasonBusy: the peer has as many as it can hold. The same may succeed later.
	ReasonBusy = Reason(frame.Busy)
	// ReasonNoDescriptor: the descriptor did not arrive; see ErrNoDescriptor. The same may
	// succeed later.
	ReasonNoDescriptor = Reason(frame.NoDescriptor)
	// ReasonKind: the peer does not take what was given, such as a listener.
	ReasonKind = Reason(frame.WrongKind)
	// ReasonDraining: the peer takes no more; see ErrDraining.
	ReasonDraining = Reason(frame.Draining)
	// ReasonDenied: this process may not give this.
	ReasonDenied = Reason(frame.Denied)
	// ReasonRecalled: the context of SendConn had ended, and the peer has given it back.
	ReasonRecalled = Reason(frame.Recalled)
)

// String returns the reason in words.
func (r Reason) String() string { return frame.Reason(r).String() }

// An Error says what failed, and with which peer. What was to be given still belongs to
// the caller, open and untouched. An Error is a net.Error.
type Error struct {
	// Op is what was attempted, such as "dial", "give", "want", "ping", "hand back" or
	// "peek".
	Op string
	// Address is the address of the peer, if it has one.
	Address string
	// ID is the number of the handoff on its channel, or 0 if nothing was sent.
	ID     uint64
	Reason Reason
	Err    error
}

// Error describes the failure in one line.
func (e *Error) Error() string {
	where := ""
	if e.Address != "" {
		where = " " + e.Address
	}
	return fmt.Sprintf("handoff: %s%s: %v", e.Op, where, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error that stands for the reason.
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

// Timeout reports whether a deadline has passed. It makes an Error a net.Error.
func (e *Error) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// Temporary reports whether the same may succeed later, because the peer refused it
// only for being busy or short of descriptors. It makes an Error a net.Error.
func (e *Error) Temporary() bool { return e.Reason == ReasonBusy || e.Reason == ReasonNoDescriptor }
