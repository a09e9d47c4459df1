// Package channel sends and receives the bytes of handoffs with the descriptors
// that belong to them, over a stream socket of this machine.
//
// Received descriptors are close-on-exec. A descriptor belongs to the frame whose
// first byte it came with; how a receiver finds that frame, Reader has.
package channel

import (
	"errors"
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
