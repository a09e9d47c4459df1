package channel

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// readerBytes holds many answers, or a gift with an ordinary request head.
const readerBytes = 16 << 10

// A source is where a Reader reads from: a Channel.
type source interface {
	Receive(into []byte, descriptors []int) (n int, _ []int, err error)
	SetReceiveDeadline(deadline time.Time) error
}

// A Reader cuts what it receives into hellos and frames. One goroutine uses it.
//
// The kernel ends a read behind the bytes that a descriptor was sent with, and
// never joins two messages that carry descriptors: so the descriptors of a read
// belong to the last GIVE that begins in it, and each GIVE takes the oldest one
// left.
type Reader struct {
	from        source
	limits      frame.Limits
	buffer      []byte
	begin, end  int // what was read and not used yet
	descriptors []int
	bounded     bool // a frame has begun, and has a deadline
}

// NewReader returns a reader of what keeps to the limits.
func NewReader(from source, limits frame.Limits) *Reader {
	return &Reader{from: from, limits: limits, buffer: make([]byte, readerBytes)}
}

// Hello reads the peer's hello, until the deadline.
func (r *Reader) Hello(deadline time.Time) (frame.Hello, error) {
	if err := r.from.SetReceiveDeadline(deadline); err != nil {
		return frame.Hello{}, err
	}
	if err := r.fill(frame.HelloBytes); err != nil {
		return frame.Hello{}, err
	}
	total, err := frame.HelloTotal(r.unused())
	if err != nil {
		return frame.Hello{}, err
	}
	if err := r.fill(total); err != nil {
		return frame.Hello{}, err
	}
	hello := frame.ParseHello(r.unused()[:total])
	r.begin += total
	r.bounded = true
	return hello, r.endOfFrame()
}

// Bare reads the beginning of a channel, until the deadline. Where that is no hello
// but a single descriptor, as programs send it that know no protocol, it returns the
// descriptor, which is then the caller's; otherwise NoDescriptor, and Hello follows.
func (r *Reader) Bare(deadline time.Time) (int, error) {
	if err := r.from.SetReceiveDeadline(deadline); err != nil {
		return NoDescriptor, err
	}
	if err := r.fill(1); err != nil {
		return NoDescriptor, err
	}
	if frame.BeginsHello(r.unused()) || len(r.descriptors) == 0 {
		return NoDescriptor, nil
	}
	return r.claim(), r.checkUnclaimed()
}

// Next reads the next frame. For a GIVE it returns its descriptor, which is then
// the caller's, or Lost. The parts of the frame are its own.
func (r *Reader) Next() (frame.Frame, int, error) {
	header, err := r.header()
	if err != nil {
		return frame.Frame{}, NoDescriptor, err
	}
	descriptor := NoDescriptor
	if header.Type == frame.Give {
		descriptor = r.claim()
	}
	body, err := r.body(int(header.Length))
	if err == nil {
		err = r.endOfFrame()
	}
	if err != nil {
		Close([]int{descriptor})
		return frame.Frame{}, NoDescriptor, err
	}
	return header.Split(body), descriptor, nil
}

// header returns the next frame's, checked. Waiting for one to begin has no
// deadline; once begun, the frame has one.
func (r *Reader) header() (frame.Header, error) {
	if len(r.unused()) == 0 {
		if err := r.fill(1); err != nil {
			return frame.Header{}, err
		}
	}
	if len(r.unused()) < frame.HeaderBytes {
		if err := r.boundFrame(); err != nil {
			return frame.Header{}, err
		}
		if err := r.fill(frame.HeaderBytes); err != nil {
			return frame.Header{}, err
		}
	}
	header, err := frame.ParseHeader(r.unused(), r.limits)
	r.begin += frame.HeaderBytes
	return header, err
}

// body returns the bytes behind a header in memory of their own; nil for none.
func (r *Reader) body(length int) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	body := make([]byte, length)
	have := copy(body, r.unused())
	r.begin += have
	if have < length {
		if err := r.boundFrame(); err != nil {
			return nil, err
		}
	}
	for have < length {
		n, descriptors, err := r.from.Receive(body[have:], r.descriptors)
		r.descriptors = descriptors
		if err != nil {
			return nil, late(err)
		}
		if len(r.descriptors) > 0 {
			return nil, r.checkUnclaimed()
		}
		have += n
	}
	return body, nil
}

func (r *Reader) boundFrame() error {
	r.bounded = true
	return r.from.SetReceiveDeadline(time.Now().Add(wire.FrameTimeoutMs * time.Millisecond))
}

// endOfFrame looks at what follows: descriptors that are left belong to a GIVE
// that has begun.
func (r *Reader) endOfFrame() error {
	// What is left of one read can belong to a GIVE that has begun, and no more.
	if r.begin == r.end || len(r.descriptors) > 1 {
		if err := r.checkUnclaimed(); err != nil {
			return err
		}
	}
	if !r.bounded {
		return nil
	}
	r.bounded = false
	return r.from.SetReceiveDeadline(time.Time{})
}

func (r *Reader) claim() int {
	if len(r.descriptors) == 0 {
		return Lost
	}
	descriptor := r.descriptors[0]
	r.descriptors = append(r.descriptors[:0], r.descriptors[1:]...)
	return descriptor
}

// checkUnclaimed refuses descriptors that no GIVE took.
func (r *Reader) checkUnclaimed() error {
	if len(r.descriptors) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d descriptors came with no GIVE, or more than one with one", frame.ErrProtocol, len(r.descriptors))
}

// Close closes the descriptors that no frame took.
func (r *Reader) Close() {
	Close(r.descriptors)
	r.descriptors = nil
}

func (r *Reader) unused() []byte { return r.buffer[r.begin:r.end] }

// fill reads until as many bytes are there; they are no more than the buffer holds.
func (r *Reader) fill(bytes int) error {
	if len(r.buffer)-r.begin < bytes || r.begin == r.end {
		r.end = copy(r.buffer, r.unused())
		r.begin = 0
	}
	for r.end-r.begin < bytes {
		had := len(r.descriptors)
		n, descriptors, err := r.from.Receive(r.buffer[r.end:], r.descriptors)
		r.descriptors = descriptors
		if err != nil {
			return late(err)
		}
		r.end += n
		// One message carries one, and a read holds one message that carries any.
		if len(descriptors)-had > 1 {
			return r.checkUnclaimed()
		}
	}
	return nil
}

// late says what a deadline that has passed means.
func late(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: its hello or its frame does not end: %w", frame.ErrProtocol, err)
	}
	return err
}
