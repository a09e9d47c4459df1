package handoff

import (
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// errGone is what claim returns for an arrival that its giver has back.
var errGone = errors.New("handoff: it was asked back, or its channel has ended")

// An arrival is something that was given and is neither taken nor refused yet. Until
// claim and confirm, only its giver may use it.
type arrival struct {
	link       *link
	id         uint64
	kind       frame.Kind
	descriptor int    // if descriptors can be sent
	resource   []byte // what is sent in place of a descriptor elsewhere
	meta       Meta
	queue      *queue // where it waits; nil if this side takes none of its kind
	left       func() // for a bare descriptor: called when it no longer waits
}

// onGive queues what was given, or refuses it.
func (l *link) onGive(f *frame.Frame, descriptor int) error {
	a := &arrival{link: l, id: f.ID, kind: f.Kind, descriptor: descriptor, resource: f.Resource,
		meta: metaOf(f), queue: l.inbox[f.Kind]}
	reason, err := l.admit(a)
	switch {
	case err != nil:
		a.drop()
		return err
	case reason != 0:
		a.drop()
		return l.reply(frame.Frame{Type: frame.Refused, ID: f.ID, Reason: reason})
	}
	a.queue.put(a)
	return nil
}

// admit notes an arrival, or returns why it is refused.
func (l *link) admit(a *arrival) (frame.Reason, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.id <= l.lastArrival {
		return 0, fmt.Errorf("%w: the id %d after %d", frame.ErrProtocol, a.id, l.lastArrival)
	}
	l.lastArrival = a.id
	switch {
	case len(l.arrivals) >= l.config.window:
		return 0, fmt.Errorf("%w: more than %d unanswered", frame.ErrProtocol, l.config.window)
	case a.lacksDescriptor():
		return frame.NoDescriptor, nil
	case l.refuse:
		return frame.Draining, nil
	case a.queue == nil:
		return frame.WrongKind, nil
	}
	l.arrivals[a.id] = a
	return 0, nil
}

func (a *arrival) lacksDescriptor() bool {
	return a.descriptor == channel.Lost && len(a.resource) == 0
}

// drop closes this process's copy of what was given. It never shuts a connection down.
func (a *arrival) drop() {
	closeArrival(a)
	if a.queue != nil {
		a.queue.remove(a)
	}
}

// onRecall gives back what was not taken. If it was taken in the meantime, that answer
// is already on its way.
func (l *link) onRecall(f *frame.Frame, _ int) error {
	l.mu.Lock()
	a, waiting := l.arrivals[f.ID]
	delete(l.arrivals, f.ID)
	known := f.ID <= l.lastArrival
	l.mu.Unlock()
	if !known {
		return fmt.Errorf("%w: it asks %d back, which it has not given", frame.ErrProtocol, f.ID)
	}
	if !waiting {
		return nil
	}
	a.drop()
	return l.reply(frame.Frame{Type: frame.Refused, ID: f.ID, Reason: frame.Recalled})
}

// claim makes its caller the only one who answers this arrival.
func (a *arrival) claim() error {
	l := a.link
	if l.bare {
		a.left()
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arrivals[a.id] != a {
		return errGone
	}
	delete(l.arrivals, a.id)
	return nil
}

// confirm makes a claimed arrival belong to this process. If it fails, the arrival does
// not, and must only be closed.
func (a *arrival) confirm() error {
	return a.link.sendAnswerWithin(takenTimeout, &frame.Frame{Type: frame.Taken, ID: a.id})
}

// takenTimeout is how long accepting may wait until the channel has room for its
// answer. A giver that keeps to its window leaves room for every answer, but on a busy
// machine a large GIVE of our own may be on its way to that giver. A giver that reads
// nothing can hold up what others have given only once, because its channel ends then.
const takenTimeout = answerTimeout / 2

// fitting returns as much of a text as the peer accepts in a message.
func (l *link) fitting(text string) []byte {
	return []byte(text[:min(len(text), l.limitsOfPeer().MessageBytesMax)])
}

// refuse answers a claimed arrival, whose descriptor the caller has already closed.
func (a *arrival) refuse(reason frame.Reason, why string) {
	f := frame.Frame{Type: frame.Refused, ID: a.id, Reason: reason, Message: a.link.fitting(why)}
	if err := a.link.sendAnswer(&f); err != nil {
		a.link.channel.End()
	}
}

// refuseAll makes a link take no more. What waits goes back to its giver.
func (l *link) refuseAll(why string) {
	l.mu.Lock()
	if l.refuse || l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.refuse = true
	arrivals := l.arrivals
	l.arrivals = make(map[uint64]*arrival)
	l.mu.Unlock()
	for _, a := range arrivals {
		a.drop()
		a.refuse(frame.Draining, why)
	}
	if err := l.sendAnswer(&frame.Frame{Type: frame.Drain, Message: l.fitting(why)}); err != nil {
		l.channel.End()
	}
	l.release(0)
}

// hold counts a connection that came by this link and may go back by it.
func (l *link) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held++
}

// release counts such connections down. A link that takes no more ends when nothing is
// left that may go back by it.
func (l *link) release(connections int) {
	l.mu.Lock()
	l.held -= connections
	over := l.refuse && (l.held == 0 || l.peer.Takes&frame.TakesConnections == 0)
	l.mu.Unlock()
	if over {
		l.channel.End()
	}
}
