package backend

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// Offer is Send where a process is free at this moment, which is nearly always: it waits for
// nothing and costs no goroutine. done is called once, by a goroutine that must not be held up:
// with the socket of the process that has the connection; or else it is the caller's again, and
// keeps its turn. false: nothing was done.
func (b *Backend) Offer(c net.Conn, m handoff.Meta, done func(*Socket, *Turn)) bool {
	l := b.reserve(nil)
	if l == nil {
		return false
	}
	o := &offered{attempt: attempt{backend: b, conn: c, meta: m, began: time.Now()}, lane: l, done: done}
	o.elsewhere = waiter{attempt: &o.attempt, not: l, wake: o.callBack}
	// Before it is offered, for the answer may be there before this returns.
	o.overdue = time.AfterFunc(b.set.health(), func() { b.enqueue(&o.elsewhere) })
	recall, ok := l.peer.OfferConn(c, m, o.answered)
	if !ok {
		o.overdue.Stop()
		o.giveUp(b.set.leave(&o.elsewhere))
		l.release()
		return false
	}
	o.mayRecall(recall)
	return true
}

// An offered connection waits for the answer of one process, and from when that is overdue for
// another that is free.
type offered struct {
	attempt
	lane      *lane
	elsewhere waiter
	overdue   *time.Timer
	done      func(*Socket, *Turn)
	// recall is set when it is known; wanted, when it was needed before.
	recall atomic.Pointer[func()]
	wanted atomic.Bool
}

func (o *offered) mayRecall(recall func()) {
	o.recall.Store(&recall)
	if o.wanted.Load() {
		recall()
	}
}

// callBack is told that another is free. It holds the room.
func (o *offered) callBack(*lane) {
	o.wanted.Store(true)
	if recall := o.recall.Load(); recall != nil {
		(*recall)()
	}
}

func (o *offered) answered(err error) {
	set := o.backend.set
	o.overdue.Stop()
	next := set.leave(&o.elsewhere)
	if err != nil && o.wanted.Load() {
		err = fmt.Errorf("%w: %w", context.Canceled, err)
	}
	o.lane.settle(o.began, err)
	if err != nil {
		o.asked, o.last = append(o.asked, o.lane), err
		set.refused(o.backend, o.lane.socket, err)
		o.done(nil, &Turn{attempt: &o.attempt, place: next})
		return
	}
	o.giveUp(next)
	o.done(o.lane.socket, nil)
}

// A Turn is that of a connection which was offered to a process in vain: it has waited since
// then, and others that came later do not go before it. Its owner calls Send or GiveUp.
type Turn struct {
	attempt *attempt
	place   *lane // of another process, which was found meanwhile
}

// Err says why the process did not take the connection.
func (t *Turn) Err() error { return t.attempt.last }

// Send is that of the backend, for a connection whose turn this is.
func (t *Turn) Send(ctx context.Context, b *Backend, c net.Conn, m handoff.Meta) (*Socket, error) {
	if t.attempt.backend != b {
		t.GiveUp()
		return b.Send(ctx, c, m)
	}
	t.attempt.conn, t.attempt.meta = c, m
	l := t.place
	if t.place = nil; l == nil {
		l = b.reserve(t.attempt.refusedBy())
	}
	return t.attempt.send(ctx, l)
}

// GiveUp leaves the place to others.
func (t *Turn) GiveUp() {
	t.attempt.giveUp(t.place)
	t.place = nil
}
