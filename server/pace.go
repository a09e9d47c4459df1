package server

import (
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/wire"
)

const (
	descriptorTime = time.Second / wire.FileDescriptorsPerSecond
	// paceBurst is the time whose descriptors may come at once.
	paceBurst = time.Second / 16
	// paceLook is how soon a connection that waits notices that it is to end.
	paceLook = 50 * time.Millisecond
)

// A pace bounds how many descriptors the connections of one user bring in a second. To
// receive descriptors and to close them takes long, compared to what it takes to send them,
// and a peer that sends many would slow down everybody else's calls. So the reader that has
// received too many does not read on for a while, and neither does a connection that comes
// meanwhile.
type pace struct {
	exempt bool

	mu   sync.Mutex
	free time.Time // until then the descriptors that have come take the user's time
}

// count counts descriptors, and returns when their connection may read on.
func (p *pace) count(descriptors int, now time.Time) (free time.Time) {
	if p.exempt {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if earliest := now.Add(-paceBurst); p.free.Before(earliest) {
		p.free = earliest
	}
	p.free = p.free.Add(time.Duration(descriptors) * descriptorTime)
	return p.free
}

func (p *pace) freeAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// keepPace waits until that time, unless the connection is to end before.
func (c *connection) keepPace(free time.Time) {
	for !c.gate.Load() && !c.calls.draining.Load() {
		left := time.Until(free)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, paceLook))
	}
}
