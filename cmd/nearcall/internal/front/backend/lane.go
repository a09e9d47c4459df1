package backend

import (
	"context"
	"errors"
	"time"

	"github.com/nearcall/nearcall/handoff"
)

// A lane is a channel to a process, and what is known of how it takes connections. The
// room of the set guards what changes.
//
// A process that takes at any time, as those in Go do, answers at once, and is given
// several at a time. A worker that serves one connection after the other answers when it
// is done: given one while it serves, it would keep that from others that are free. So a
// lane that is slow to answer is given one when it is known to wait for it: when it has
// answered a ping that was sent after the last one was taken, for a worker that is busy
// answers nothing at all.
type lane struct {
	socket *Socket
	peer   *handoff.Peer

	given    int           // places that are taken: connections that are offered, or about to be
	ready    bool          // it has answered since it took the last one
	probed   bool          // a ping is on its way
	interval time.Duration // what it needs for one
	answered time.Time     // when it took the last one
	moved    time.Time     // when it last had nothing to answer, or answered

	dead         bool // it takes no more
	shunnedUntil time.Time
	pausedUntil  time.Time
	pause        time.Duration
	refusesSince time.Time // zero: it took the last one
}

const (
	// quickness is how long a connection may wait behind others of its process.
	quickness = 5 * time.Millisecond
	// A process is slow until it has taken some connections quickly.
	intervalFirst = 10 * quickness
	// A process that lets connections wait in vain comes last for so long.
	shunnedFor = 5 * time.Second
	// One that refuses is left alone, twice as long each time.
	pauseLeast = 10 * time.Millisecond
	pauseMost  = time.Second
)

func newLane(s *Socket, peer *handoff.Peer) *lane {
	return &lane{socket: s, peer: peer, ready: true, interval: intervalFirst}
}

func (l *lane) slow() bool { return l.interval > quickness }

// hasRoom may be called only while the room is held.
func (l *lane) hasRoom(now time.Time) bool {
	switch {
	case l.dead || now.Before(l.pausedUntil):
		return false
	case l.slow():
		return l.ready && l.given == 0
	}
	return l.given == 0 || l.given < int(quickness/l.interval) && now.Sub(l.moved) < quickness
}

// reserve takes a place. It may be called only while the room is held.
func (l *lane) reserve(now time.Time) {
	if l.given == 0 {
		l.moved = now
	}
	l.given++
	l.ready = false
}

// release gives a place back that was not used.
func (l *lane) release() {
	l.socket.set.room.Lock()
	defer l.socket.set.room.Unlock()
	l.given--
	l.ready = true
	l.socket.offer()
}

// settle is told of each connection that was offered.
func (l *lane) settle(began time.Time, err error) {
	l.socket.set.room.Lock()
	defer l.socket.set.room.Unlock()
	now := time.Now()
	l.given--
	l.moved = now
	switch {
	case err == nil:
		l.refusesSince, l.pause = time.Time{}, 0
		l.took(began, now)
	case errors.Is(err, context.Canceled):
		// It let one wait that another has now.
		l.interval = max(l.interval, intervalFirst)
		l.shunnedUntil = now.Add(shunnedFor)
		l.ready = true
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, handoff.ErrTooLarge):
		l.ready = true
	case l.peer.Err() != nil:
		l.dead = true
	default:
		l.rest(now)
	}
	l.socket.offer()
}

// took notes how long it needed. A slow one is asked whether it waits for the next.
func (l *lane) took(began, now time.Time) {
	if l.slow() {
		l.answered = began
		l.probe()
		return
	}
	if began.Before(l.answered) {
		began = l.answered
	}
	l.answered = now
	l.measure(now.Sub(began))
	if l.slow() {
		l.probe()
	}
}

// measure believes at once that it is slower, and slowly that it is quicker.
func (l *lane) measure(took time.Duration) {
	const memory = 4
	l.interval = max(took, l.interval-(l.interval-took)/memory, time.Microsecond)
}

// probe asks for an answer, which comes when the process can take the next one.
func (l *lane) probe() {
	if l.probed {
		return
	}
	l.probed = true
	set := l.socket.set
	go func() {
		err := l.peer.Ping(set.ctx)
		set.room.Lock()
		defer set.room.Unlock()
		l.probed = false
		if err != nil {
			return // The channel has ended, which others notice.
		}
		l.measure(time.Since(l.answered))
		l.ready = true
		l.socket.offer()
	}()
}

// rest leaves a process alone that refuses.
func (l *lane) rest(now time.Time) {
	if l.refusesSince.IsZero() {
		l.refusesSince = now
	}
	l.ready = true
	if now.Before(l.pausedUntil) {
		return // Several were on their way.
	}
	l.pause = min(max(2*l.pause, pauseLeast), pauseMost)
	l.pausedUntil = now.Add(l.pause)
	l.interval = max(l.interval, intervalFirst) // so that one is tried then
	time.AfterFunc(l.pause, func() {
		l.socket.set.room.Lock()
		defer l.socket.set.room.Unlock()
		l.socket.offer()
	})
}

// before tells which of two free processes is chosen: the one that lets nobody wait, has
// least to answer for its weight, and has waited longest for its turn.
func (l *lane) before(other *lane, now time.Time, weight, otherWeight, credit, otherCredit int) bool {
	if shunned, itsShunned := now.Before(l.shunnedUntil), now.Before(other.shunnedUntil); shunned != itsShunned {
		return itsShunned
	}
	if load, its := l.given*otherWeight, other.given*weight; load != its {
		return load < its
	}
	return credit > otherCredit
}
