// Package backend keeps a channel to each process that takes connections, and
// gives each connection to the one that has least to do.
package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/handoff"
)

// ErrNobody is in the error of Send when no process took the connection in time.
var ErrNobody = errors.New("no process took the connection")

// ErrRetired is in the error of Send when the configuration has none of the
// backend's sockets any more: a newer one says where the connection may go.
var ErrRetired = errors.New("the configuration has this backend no more")

// retryPause is between two rounds over processes that all refused.
const retryPause = 10 * time.Millisecond

// A Backend is a program that takes connections, in one process or in several.
// Its methods are safe for concurrent use.
type Backend struct {
	config  config.Backend
	sockets []*Socket
	set     *Set
	turn    atomic.Uint32
}

// Config is what the backend was made by.
func (b *Backend) Config() config.Backend { return b.config }

// Has tells whether a socket is one of the backend's.
func (b *Backend) Has(s *Socket) bool { return s != nil && slices.Contains(b.sockets, s) }

// Send gives a connection to a process of the backend. nil: the process has it, and
// it is closed here. Otherwise it is the caller's, untouched, and the error says
// who refused it and why; it is ErrNobody when the backend's waiting time is over,
// and ErrRetired when nobody can come any more.
func (b *Backend) Send(ctx context.Context, c net.Conn, m handoff.Meta) error {
	a := attempt{backend: b, conn: c, meta: m, deadline: time.Now().Add(b.config.Wait)}
	// Nearly all connections are taken by the first process that is asked.
	if s := b.choose(nil); s != nil {
		if done, err := a.give(ctx, s); done {
			return err
		}
	}
	return a.persist(ctx)
}

// choose returns the process with the fewest unanswered connections, of those that
// were not asked yet. One that kept a connection waiting in vain comes last.
func (b *Backend) choose(asked []*Socket) (best *Socket) {
	start := 0
	if len(b.sockets) > 1 {
		start = int(b.turn.Add(1) % uint32(len(b.sockets)))
	}
	least := 0
	for i := range b.sockets {
		s := b.sockets[(start+i)%len(b.sockets)]
		peer := s.peer.Load()
		if peer == nil || slices.Contains(asked, s) {
			continue
		}
		if pending := peer.Pending() + s.burden(); best == nil || pending < least {
			best, least = s, pending
		}
		if len(b.sockets) == 1 {
			break
		}
	}
	return best
}

// has tells whether there is a process besides those that were asked.
func (b *Backend) has(asked []*Socket) bool {
	return len(asked) < len(b.sockets) && slices.ContainsFunc(b.sockets, func(s *Socket) bool {
		return s.peer.Load() != nil && !slices.Contains(asked, s)
	})
}

// retired tells that no process will come: all sockets were taken away, and their
// channels have ended.
func (b *Backend) retired() bool {
	return !slices.ContainsFunc(b.sockets, func(s *Socket) bool { return !s.retired.Load() || s.peer.Load() != nil })
}

// An attempt is the way of one connection to a process.
type attempt struct {
	backend  *Backend
	conn     net.Conn
	meta     handoff.Meta
	deadline time.Time
	asked    []*Socket
	last     error
}

// give asks one process. done tells that the attempt is over.
func (a *attempt) give(ctx context.Context, s *Socket) (done bool, err error) {
	peer := s.peer.Load()
	if peer == nil {
		return false, nil
	}
	a.asked = append(a.asked, s)
	within, cancel := context.WithDeadline(ctx, a.patience())
	err = peer.SendConn(within, a.conn, a.meta)
	cancel()
	if err == nil {
		return true, nil
	}
	a.last = err
	s.note(err)
	a.backend.set.refused(a.backend, s, err)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, handoff.ErrTooLarge) || ctx.Err() != nil {
		return true, err
	}
	return false, nil
}

// patience is until when the next process may take the connection: half of what is
// left while another could be asked after it. A backend that waits for nobody gives
// each that is there as long as it may take to answer a ping.
func (a *attempt) patience() time.Time {
	now := time.Now()
	if a.backend.config.Wait == 0 {
		return now.Add(a.backend.set.options.Health)
	}
	left := max(a.deadline.Sub(now), retryPause)
	if a.backend.has(a.asked) {
		left /= 2
	}
	return now.Add(left)
}

// persist asks all the others, and all again when one of them has come back, until
// the time is over.
func (a *attempt) persist(ctx context.Context) error {
	for _, s := range a.backend.sockets {
		s.want(1)
		defer s.want(-1)
	}
	for {
		came := a.backend.set.came.wait()
		for s := a.backend.choose(a.asked); s != nil; s = a.backend.choose(a.asked) {
			if done, err := a.give(ctx, s); done {
				return err
			}
		}
		if a.backend.retired() {
			return a.error(ErrRetired)
		}
		if err := a.pause(ctx, came); err != nil {
			return err
		}
		a.asked = a.asked[:0]
	}
}

// pause waits for a process to come; while there are some, all of which refused, it
// waits for them to have room.
func (a *attempt) pause(ctx context.Context, came <-chan struct{}) error {
	left := time.Until(a.deadline)
	if left <= 0 {
		return a.nobody()
	}
	if a.backend.has(nil) {
		left = min(left, retryPause)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-came:
	case <-timer.C:
	}
	return nil
}

func (a *attempt) nobody() error {
	within := fmt.Errorf("%w within %v", ErrNobody, a.backend.config.Wait)
	if a.last == nil {
		a.last = fmt.Errorf("nobody listens on %v", a.backend.config.Sockets)
	}
	return a.error(within)
}

// error is what went wrong, with the last refusal.
func (a *attempt) error(err error) error {
	if a.last != nil {
		return fmt.Errorf("backend %s: %w: %w", a.backend.config.Name, err, a.last)
	}
	return fmt.Errorf("backend %s: %w", a.backend.config.Name, err)
}
