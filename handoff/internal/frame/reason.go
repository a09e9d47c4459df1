package frame

import "fmt"

// A Reason says why something was refused.
type Reason uint8

// The reasons of spec/handoff.md.
const (
	Busy Reason = 1 + iota
	NoDescriptor
	WrongKind
	Draining
	Denied
	Recalled
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case Busy:
		return "it has as many as it can hold"
	case NoDescriptor:
		return "the descriptor did not arrive"
	case WrongKind:
		return "it does not take what was given"
	case Draining:
		return "it takes no more"
	case Denied:
		return "this peer may not give it"
	case Recalled:
		return "it was asked back"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}
