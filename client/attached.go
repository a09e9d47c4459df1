package client

import (
	"errors"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
)

// refusedPause is how long a writer waits before it offers descriptors to the kernel
// again after the kernel has refused them. The kernel does not say when it would take
// them.
const refusedPause = time.Millisecond

// errDetached says that a call ended before its request, which has descriptors, was
// sent. That happens only if the server answers a request that it has not received.
var errDetached = errors.New("a call ended before its request with descriptors was sent")

// attach keeps the descriptors of a request until its first byte has been sent.
// Preconditions: connection.mu is held.
func (o *output) attach(id uint64, descriptors []int) {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	if o.attached == nil {
		o.attached = map[uint64][]int{}
	}
	o.attached[id] = descriptors
}

// detach makes sure that the descriptors of a request, which are about to be closed,
// will not be sent. If the request is still waiting to be sent, it never will be.
func (o *output) detach(id uint64) {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	if _, waits := o.attached[id]; waits {
		o.attached[id] = nil
	}
}

// withdrawn drops the descriptors of a request that was withdrawn.
func (o *output) withdrawn(id uint64) {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	delete(o.attached, id)
}

// wasRefused reports whether the kernel has refused descriptors since it was last
// asked.
func (o *output) wasRefused() bool {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	refused := o.refused
	o.refused = false
	return refused
}

// writeAttached is writeOnce for the case that requests have descriptors: each such
// request is sent in a message of its own. Preconditions: sendMu is held.
func (o *output) writeAttached(room transport.Room) (blocked bool) {
	for o.sent < len(o.sending) {
		end, id := o.nextMessage()
		descriptors := o.attached[id]
		if id != 0 && len(descriptors) == 0 {
			o.failure = errDetached
			return false
		}
		n, err := room.(transport.LocalRoom).SendNow(o.sending[o.sent:end], descriptors)
		o.sent += n
		if o.refused = errors.Is(err, transport.ErrNotSent); o.refused {
			return false
		}
		o.failure = err
		if n > 0 {
			delete(o.attached, id)
		}
		if o.sent < end {
			return n == 0 && err == nil
		}
	}
	return false
}

// nextMessage returns where the next message ends. That is before the next request that
// has descriptors, or behind it if that request is the first; then id is its id.
func (o *output) nextMessage() (end int, id uint64) {
	for start := 0; start < len(o.sending); start = end {
		header := wire.ParseHeader(o.sending[start:])
		end = start + wire.HeaderBytes + int(header.Length)
		switch {
		case header.Descriptors == 0 || start < o.sent:
		case start > o.sent:
			return start, 0
		default:
			return end, header.CallID
		}
	}
	return len(o.sending), 0
}
