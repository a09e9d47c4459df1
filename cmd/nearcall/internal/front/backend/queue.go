package backend

import (
	"container/list"
	"slices"
	"time"
)

// A waiter is a connection that waits for a place. The room of the set guards it.
type waiter struct {
	attempt *attempt
	// not is the process that has the connection already, and is too slow.
	not *lane
	// first: it was given to somebody before, and goes before those that came later.
	first bool
	// wake is called, once, with a place; it must not wait.
	wake func(*lane)

	elements []*list.Element // in the queue of each socket
	got      *lane
	over     bool
}

// reserve takes a place with the process that is to have the next connection; nil: none
// is free, or others wait already.
func (b *Backend) reserve(not []*lane) *lane {
	b.set.room.Lock()
	defer b.set.room.Unlock()
	return b.choose(func(l *lane) bool { return !slices.Contains(not, l) })
}

func (b *Backend) choose(fits func(*lane) bool) *lane {
	var best *lane
	at, total := 0, 0
	now := time.Now()
	for i, s := range b.sockets {
		l := s.lane.Load()
		if l == nil || !l.hasRoom(now) || !fits(l) {
			continue
		}
		weight := b.config.Weight(i)
		total += weight
		b.credits[i] += weight
		if best == nil || l.before(best, now, weight, b.config.Weight(at), b.credits[i], b.credits[at]) {
			best, at = l, i
		}
	}
	if best != nil {
		b.credits[at] -= total
		best.reserve(now)
	}
	return best
}

// enqueue lets a waiter wait at all sockets of the backend, unless there is a place.
func (b *Backend) enqueue(w *waiter) {
	b.set.room.Lock()
	defer b.set.room.Unlock()
	if w.over {
		return
	}
	not := w.attempt.refusedBy()
	if l := b.choose(func(l *lane) bool { return l != w.not && !slices.Contains(not, l) }); l != nil {
		w.get(l)
		return
	}
	for _, s := range b.sockets {
		w.elements = append(w.elements, w.enter(&s.waiting))
	}
}

// enter takes the waiter's place in a queue: behind all others, or, where the connection was
// given to somebody before, behind those that came before it.
func (w *waiter) enter(waiting *list.List) *list.Element {
	if w.first || w.not != nil {
		for element := waiting.Front(); element != nil; element = element.Next() {
			if w.attempt.began.Before(element.Value.(*waiter).attempt.began) {
				return waiting.InsertBefore(w, element)
			}
		}
	}
	return waiting.PushBack(w)
}

// get may be called only while the room is held, by the one that has reserved the place.
func (w *waiter) get(l *lane) {
	w.remove()
	w.got = l
	w.wake(l)
}

func (w *waiter) remove() {
	for i, element := range w.elements {
		w.attempt.backend.sockets[i].waiting.Remove(element)
	}
	w.elements, w.over = nil, true
}

// leave ends the waiting, and returns the place that was got before.
func (s *Set) leave(w *waiter) *lane {
	s.room.Lock()
	defer s.room.Unlock()
	w.remove()
	return w.got
}

// offer gives the places of a process to those who wait. It may be called only while the
// room is held.
func (s *Socket) offer() {
	l := s.lane.Load()
	if l == nil {
		return
	}
	now := time.Now()
	for element := s.waiting.Front(); element != nil && l.hasRoom(now); {
		w := element.Value.(*waiter)
		next := element.Next()
		if w.not != l && !slices.Contains(w.attempt.refusedBy(), l) {
			l.reserve(now)
			w.get(l)
		}
		element = next
	}
}

// absence is for how long no process has been there that takes connections, besides
// those that are left out.
func (b *Backend) absence(now time.Time, not []*lane) time.Duration {
	b.set.room.Lock()
	defer b.set.room.Unlock()
	least := time.Duration(1<<63 - 1)
	for _, s := range b.sockets {
		if l := s.lane.Load(); l == nil || !slices.Contains(not, l) {
			least = min(least, s.absence(now))
		}
	}
	return least
}

// absence may be called only while the room is held.
func (s *Socket) absence(now time.Time) time.Duration {
	l := s.lane.Load()
	switch {
	case l != nil && !l.dead && !l.refusesSince.IsZero():
		return now.Sub(l.refusesSince)
	case l != nil && !l.dead:
		return 0
	case !s.dialing.IsZero() && now.Sub(s.dialing) > refusedWithin:
		// The kernel refuses at once where nobody listens.
		return 0
	}
	return now.Sub(s.absent)
}
