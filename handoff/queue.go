package handoff

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// A queue holds the arrivals of one kind until the program asks for them. Its size is
// bounded by the windows of the channels. Bare descriptors have no window; they are
// counted for each user.
type queue struct {
	mu       sync.Mutex
	changed  sync.Cond
	arrivals []*arrival
	closed   bool
}

// An inbox has a queue for each kind of thing that a side takes.
type inbox [frame.File + 1]*queue

func newInbox(kinds ...frame.Kind) (made inbox) {
	for _, kind := range kinds {
		made[kind] = newQueue()
	}
	return made
}

func (i *inbox) takes() (takes frame.Takes) {
	for kind, queue := range i {
		if queue != nil {
			takes |= frame.TakesKind(frame.Kind(kind))
		}
	}
	return takes
}

func (i *inbox) close() {
	for _, queue := range i {
		if queue != nil {
			queue.close()
		}
	}
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

// put adds an arrival, and reports whether anybody can still take it.
func (q *queue) put(a *arrival) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.arrivals = append(q.arrivals, a)
	q.changed.Signal()
	return true
}

// remove takes an arrival out because its giver has it back.
func (q *queue) remove(a *arrival) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.arrivals, a); i >= 0 {
		q.arrivals = slices.Delete(q.arrivals, i, i+1)
	}
}

// take waits for an arrival and claims it. After close it returns net.ErrClosed.
func (q *queue) take(ctx context.Context) (*arrival, error) {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.changed.Broadcast()
		})
		defer stop()
	}
	for {
		a, err := q.next(ctx)
		if err != nil || a.claim() == nil {
			return a, err
		}
	}
}

func (q *queue) next(ctx context.Context) (*arrival, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.arrivals) == 0 {
		switch {
		case q.closed:
			return nil, net.ErrClosed
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		q.changed.Wait()
	}
	a := q.arrivals[0]
	q.arrivals[0] = nil
	q.arrivals = q.arrivals[1:]
	return a, nil
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
	for _, a := range q.arrivals {
		if a.link.bare { // those of other links are closed by their links
			a.left()
			closeArrival(a)
		}
	}
	q.arrivals = nil
}
