package transport

import (
	"fmt"

	"github.com/nearcall/nearcall/internal/rights"
	"github.com/nearcall/nearcall/internal/wire"
)

// Descriptors are the descriptors that came with one read, or with one frame.
type Descriptors struct {
	// Numbers are close-on-exec. The receiver must close them, with package rights.
	Numbers []int
	// Truncated means that more descriptors came than were expected, or than the
	// process could have. Those are closed.
	Truncated bool
}

// DescriptorsPerMessageMax is how many descriptors may come with one read.
const DescriptorsPerMessageMax = rights.MessageMax

// Count returns how many descriptors came, or how many may have come if some were closed.
func (d Descriptors) Count() int {
	if d.Truncated {
		return DescriptorsPerMessageMax
	}
	return len(d.Numbers)
}

// Close closes the descriptors. It does not wait, whatever they are.
func (d Descriptors) Close() { rights.Close(d.Numbers...) }

// Crowded reports whether a call must not have these descriptors: see package rights.
func (d Descriptors) Crowded() bool { return rights.Crowded(d.Numbers...) }

// DescriptorsWaiting returns how many descriptors stay open because very many wait to
// be closed.
func DescriptorsWaiting() int { return rights.Waiting() }

// Only keeps the first count descriptors and closes the others.
func (d Descriptors) Only(count int) Descriptors {
	if len(d.Numbers) <= count {
		return d
	}
	rights.Close(d.Numbers[count:]...)
	return Descriptors{Numbers: d.Numbers[:count], Truncated: true}
}

func (d Descriptors) came() bool { return d.Truncated || len(d.Numbers) > 0 }

// An arrival holds the descriptors that came with one read. The read took the bytes
// from from up to to of the stream.
type arrival struct {
	Descriptors
	from, to uint64
}

// Arrivals finds out with which frame descriptors came. The kernel ends a read within
// the message that brought them, and that message begins with the frame that announces
// them. So the descriptors belong to the frame that contains the read's last byte and
// has begun in that read. Arrivals belongs to whoever reads.
type Arrivals struct {
	waiting []arrival
}

// arrivalsMax is how many arrivals can wait: those of a frame that is not complete, and
// those of the next frame that came with its last bytes. If there are more, some came
// in the middle of a frame.
const arrivalsMax = 2

// Add records the descriptors that came with the read of the bytes from from up to to
// of the stream.
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

// AnyNumber stands for a number that was not announced: all descriptors that came are
// taken.
const AnyNumber = -1

// Take returns the descriptors of a frame that consists of the bytes from from up to to
// of the stream and announces so many. If some were lost it closes the others. It fails
// with a *wire.ProtocolError if another number came, or if they did not come with the
// first byte of the frame.
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

// Close closes the descriptors that were not taken.
func (a *Arrivals) Close() {
	for _, waiting := range a.waiting {
		waiting.Close()
	}
	a.waiting = nil
}
