// Package backend keeps a channel to each process that takes connections, and gives
// each connection to one that is free.
package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/handoff"
)

// ErrNobody is in the error of Send when no process was there in time.
var ErrNobody = errors.New("no process took the connection")

// ErrRetired is in the error of Send when the configuration has none of the
// backend's sockets any more: a newer one says where the connection may go.
var ErrRetired = errors.New("the configuration has this backend no more")

// A Backend is a program that takes connections, in one process or in several.
// Its methods are safe for concurrent use.
type Backend struct {
	config  config.Backend
	sockets []*Socket
	set     *Set
	// credits make equally free processes take turns, by their weights. The set's
	// room guards them.
	credits []int
}

// Config is what the backend was made by.
func (b *Backend) Config() config.Backend { return b.config }

// Has tells whether a socket is one of the backend's.
func (b *Backend) Has(s *Socket) bool { return s != nil && slices.Contains(b.sockets, s) }

// Send gives a connection to a process of the backend. nil: the process that listens
// on the socket has it, and it is closed here. Otherwise it is the caller's, untouched, and the error says
// who refused it and why; it is ErrNobody when no process was there for the backend's
// waiting time, and ErrRetired when nobody can come any more.
//
// While a process is there, be it as busy as it likes, a connection waits as it would
// in a listening socket's backlog: for the first that is free, in the order of arrival.
func (b *Backend) Send(ctx context.Context, c net.Conn, m handoff.Meta) (*Socket, error) {
	a := attempt{backend: b, conn: c, meta: m, began: time.Now()}
	// Nearly all connections are taken by the first process that is asked.
	return a.send(ctx, b.reserve(nil))
}

// send asks processes until one takes the connection, beginning with the one whose place is
// there already.
func (a *attempt) send(ctx context.Context, l *lane) (*Socket, error) {
	for {
		var err error
		if l == nil {
			if l, err = a.wait(ctx); err != nil {
				return nil, err
			}
		}
		took := l.socket
		l, err = a.give(ctx, l)
		switch {
		case err == nil:
			return took, nil
		case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, handoff.ErrTooLarge) || ctx.Err() != nil:
			a.giveUp(l)
			return nil, err
		case l == nil:
			l = a.backend.reserve(a.refusedBy())
		}
	}
}

// retired tells that no process will come: all sockets were taken away, and their
// channels have ended.
func (b *Backend) retired() bool {
	return !slices.ContainsFunc(b.sockets, func(s *Socket) bool { return !s.retired.Load() || s.lane.Load() != nil })
}

// An attempt is the way of one connection to a process.
type attempt struct {
	backend *Backend
	conn    net.Conn
	meta    handoff.Meta
	began   time.Time
	// asked are those who had it already. It goes before others then.
	asked []*lane
	last  error
}

// refusedBy are those that are not asked again where each is asked once.
func (a *attempt) refusedBy() []*lane {
	if a.backend.config.Wait > 0 {
		return nil
	}
	return a.asked
}

// give asks one process. After an error, next has a place for the connection, where one
// was found meanwhile.
func (a *attempt) give(ctx context.Context, l *lane) (next *lane, err error) {
	within, recall := context.WithCancel(ctx)
	defer recall()
	elsewhere := &waiter{attempt: a, not: l}
	elsewhere.wake = func(*lane) { recall() }
	began := time.Now()
	overdue := time.AfterFunc(a.backend.set.health(), func() { a.backend.enqueue(elsewhere) })
	err = l.peer.SendConn(within, a.conn, a.meta)
	overdue.Stop()
	next = a.backend.set.leave(elsewhere)
	l.settle(began, err)
	if err == nil {
		a.giveUp(next)
		return nil, nil
	}
	a.asked, a.last = append(a.asked, l), err
	a.backend.set.refused(a.backend, l.socket, err)
	return next, err
}

// giveUp gives a place back that is not needed.
func (a *attempt) giveUp(l *lane) {
	if l != nil {
		l.release()
	}
}

// presenceCheck is how often is looked whether a process is there, where nobody is to be
// waited for.
const presenceCheck = 50 * time.Millisecond

// wait waits for a place: as long as it takes while a process is there, otherwise for
// the backend's waiting time.
func (a *attempt) wait(ctx context.Context) (*lane, error) {
	for _, s := range a.backend.sockets {
		s.want(1)
		defer s.want(-1)
	}
	woken := make(chan *lane, 1)
	w := &waiter{attempt: a, first: len(a.asked) > 0, wake: func(l *lane) { woken <- l }}
	a.backend.enqueue(w)
	for {
		left, err := a.patience()
		if err == nil {
			var l *lane
			if l, err = a.pause(ctx, woken, left); l != nil {
				return l, nil
			}
		}
		if err != nil {
			a.giveUp(a.backend.set.leave(w))
			return nil, err
		}
	}
}

// pause waits for a place, and returns nothing where it is time to look again.
func (a *attempt) pause(ctx context.Context, woken <-chan *lane, left time.Duration) (*lane, error) {
	came := a.backend.set.came.wait()
	if a.backend.retired() {
		return nil, a.error(ErrRetired)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case l := <-woken:
		return l, nil
	case <-came:
	case <-timer.C:
	}
	return nil, nil
}

// patience returns when to look next whether a process is there, or that none was for
// too long.
func (a *attempt) patience() (left time.Duration, err error) {
	now, wait := time.Now(), a.backend.config.Wait
	alone := min(now.Sub(a.began), a.backend.absence(now, a.refusedBy()))
	if alone >= wait && alone > 0 {
		return 0, a.nobody()
	}
	return max(wait-alone, presenceCheck), nil
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
