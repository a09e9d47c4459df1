package transport

import (
	"fmt"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/wire"
)

// Descriptors are what came along with a read, or with one frame.
type Descriptors struct {
	// Numbers are the receiver's to close, by package rights. They are close-on-exec.
	Numbers []int
	// Truncated: there were more, which the process could not have, or than were
	// expected. They are closed.
	Truncated bool
}

// Close closes them. It does not wait for what they are.
func (d Descriptors) Close() { rights.Close(d.Numbers...) }

// Crowded reports that a call is not to have them: see package rights.
func (d Descriptors) Crowded() bool { return rights.Crowded(d.Numbers...) }

// DescriptorsWaiting returns how many stay open because very many wait to be closed.
func DescriptorsWaiting() int { return rights.Waiting() }

// Only keeps the first of them, and closes what is more.
func (d Descriptors) Only(count int) Descriptors {
	if len(d.Numbers) <= count {
		return d
	}
	rights.Close(d.Numbers[count:]...)
	return Descriptors{Numbers: d.Numbers[:count], Truncated: true}
}

func (d Descriptors) came() bool { return d.Truncated || len(d.Numbers) > 0 }

// An arrival is what came along with one read, which took the bytes from up to
// to of the stream.
type arrival struct {
	Descriptors
	from, to uint64
}

// Arrivals finds out which frame descriptors came with. The kernel ends a read
// within the message that brought them, and that message begins with the frame
// that announces them: so it is the frame that holds the read's last byte, and it
// has begun in that read. Arrivals belongs to who reads.
type Arrivals struct {
	waiting []arrival
}

// arrivalsMax: those of a frame that is not complete, and those of one behind it
// that came with its last bytes. More came in the middle of a frame.
const arrivalsMax = 2

// Add notes what came along with the read of the bytes from up to to of the
// stream.
func (a *Arrivals) Add(d Descriptors, from, to uint64) error {
	if !d.came() {
		return nil
	}
	a.waiting = append(a.waiting, arrival{Descriptors: d, from: from, to: to})
	if len(a.waiting) > arrivalsMax {
		return misplaced()
	}
	return nil
}

func misplaced() error {
	return &wire.ProtocolError{Text: "descriptors came in the middle of a frame, and not with its first byte"}
}

// Waiting reports whether there are descriptors whose frame was not seen yet.
func (a *Arrivals) Waiting() bool { return len(a.waiting) > 0 }

// AnyNumber announces no number: what comes is taken.
const AnyNumber = -1

// Take returns the descriptors of a frame that takes the bytes from up to to of
// the stream and announces that many. Where some were lost it closes the others. It
// fails with a *wire.ProtocolError when not as many came, or not with the frame's
// first byte.
func (a *Arrivals) Take(from, to uint64, announced int) (Descriptors, error) {
	var first arrival
	if len(a.waiting) > 0 && a.waiting[0].to <= to {
		first = a.waiting[0]
		a.waiting = a.waiting[1:]
	}
	came := len(first.Numbers)
	if announced == AnyNumber {
		announced = came
	}
	switch {
	case first.from > from || len(a.waiting) > 0 && a.waiting[0].to <= to:
		first.Close()
		return Descriptors{}, misplaced()
	case came > announced || came < announced && !first.Truncated:
		first.Close()
		return Descriptors{}, &wire.ProtocolError{Text: fmt.Sprintf("a frame announces %d descriptors, and %d came with it", announced, came)}
	case first.Truncated:
		first.Close()
		return Descriptors{Truncated: true}, nil
	}
	return first.Descriptors, nil
}

// Close closes what was not taken.
func (a *Arrivals) Close() {
	for _, waiting := range a.waiting {
		waiting.Close()
	}
	a.waiting = nil
}
