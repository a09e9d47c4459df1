package handoff

import (
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// errGone is what claim returns for an arrival that its giver has back.
var errGone = errors.New("handoff: it was asked back, or its channel has ended")

// An arrival was given and is neither taken nor refused. Its descriptor is nobody's
// but the giver's to use until claim and confirm.
type arrival struct {
	link       *link
	id         uint64
	kind       frame.Kind
	descriptor int    // where descriptors travel
	resource   []byte // where something stands for them
	meta       Meta
	queue      *queue // where it waits; nil: such are not taken
	left       func() // of a bare descriptor: it waits no more
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

// admit notes an arrival, or says why it is refused.
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

// drop closes what nobody is to have. It never shuts down.
func (a *arrival) drop() {
	closeArrival(a)
	if a.queue != nil {
		a.queue.remove(a)
	}
}

// onRecall gives back what was not taken. What was taken meanwhile has its answer
// on the way.
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

// claim decides that nobody else answers this arrival.
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

// confirm makes a claimed arrival this process's. After an error it is not, and
// must only be closed.
func (a *arrival) confirm() error {
	return a.link.sendAnswerWithin(takenTimeout, &frame.Frame{Type: frame.Taken, ID: a.id})
}

// takenTimeout is how long an acceptor waits for room. A giver that keeps to its
// window leaves room for every answer, but on a busy machine a large GIVE of our own
// may be on its way to it; one that reads nothing holds up what others have given
// once, for then its channel ends.
const takenTimeout = answerTimeout / 2

// fitting returns as much of a text as the peer takes for a message.
func (l *link) fitting(text string) []byte {
	return []byte(text[:min(len(text), l.limitsOfPeer().MessageBytesMax)])
}

// refuse answers a claimed arrival, whose descriptor the caller has closed.
func (a *arrival) refuse(reason frame.Reason, why string) {
	f := frame.Frame{Type: frame.Refused, ID: a.id, Reason: reason, Message: a.link.fitting(why)}
	if err := a.link.sendAnswer(&f); err != nil {
		a.link.channel.End()
	}
}

// refuseAll makes a link take no more: what waits goes back to its giver.
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

// release counts down; a link that takes no more and has nothing to hand back ends.
func (l *link) release(connections int) {
	l.mu.Lock()
	l.held -= connections
	over := l.refuse && (l.held == 0 || l.peer.Takes&frame.TakesConnections == 0)
	l.mu.Unlock()
	if over {
		l.channel.End()
	}
}
