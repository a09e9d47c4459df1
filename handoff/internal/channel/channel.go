// Package channel sends and receives the bytes of handoffs with the descriptors
// that belong to them, over a stream socket of this machine.
//
// Received descriptors are close-on-exec. A descriptor belongs to the frame whose
// first byte it came with; how a receiver finds that frame, Reader has.
package channel

import (
	"errors"
	"net"
)

// NoDescriptor stands for a descriptor where there is none.
const NoDescriptor = -1

// Lost stands for a descriptor that was sent and did not arrive: the limit of
// descriptors, or a security module.
const Lost = -2

// ErrTooManyInFlight is returned by Send when the kernel holds as many descriptors
// on their way as this user may have. Nothing was sent.
var ErrTooManyInFlight = errors.New("too many descriptors are on their way to their receivers")

// A PartialError is returned by Send when a part of a frame was sent: nothing can
// follow it.
type PartialError struct{ Err error }

// Error implements error.
func (e *PartialError) Error() string { return "a frame was sent in part: " + e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *PartialError) Unwrap() error { return e.Err }

// An EndedError says whose end of a channel it was. For errors.Is it is
// net.ErrClosed, which tells nobody which connection was meant.
type EndedError string

// The ends.
const (
	EndedHere  EndedError = "the channel was ended here"
	EndedThere EndedError = "the peer's process ended, or closed the channel"
)

// Error implements error.
func (e EndedError) Error() string { return string(e) }

// Is finds net.ErrClosed.
func (e EndedError) Is(target error) bool { return target == net.ErrClosed }

// WhyEnded returns whose end it was, after one was noticed.
func (c *Channel) WhyEnded() EndedError {
	if c.ended.Load() {
		return EndedHere
	}
	return EndedThere
}
