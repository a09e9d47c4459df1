package handoff

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// A gift is what is to be given. Its descriptor still belongs to its owner, who closes
// it.
type gift struct {
	frame frame.Frame
	what  syscall.Conn
}

// crowdedWait is how long a giver waits when no answer may wake it. The kernel counts
// the descriptors of a user that are on their way over all processes, so room may
// appear without any answer on this channel.
const crowdedWait = 5 * time.Millisecond

// give gives a gift and waits for the answer. It returns nil if the peer has taken the
// gift, and an Error if it has not and will not.
func (l *link) give(ctx context.Context, op string, g *gift) error {
	id, err := l.giveAndWait(ctx, g)
	if err == nil {
		return nil
	}
	return l.failed(op, id, err)
}

func (l *link) failed(op string, id uint64, err error) *Error {
	failure := &Error{Op: op, Address: l.address, ID: id, Err: err}
	var refused *refusedError
	if errors.As(err, &refused) {
		failure.Reason = Reason(refused.reason)
	}
	return failure
}

func (l *link) giveAndWait(ctx context.Context, g *gift) (id uint64, err error) {
	if l.peer.Takes&frame.TakesKind(g.frame.Kind) == 0 {
		return 0, fmt.Errorf("%w: the peer takes no %s", errors.ErrUnsupported, g.frame.Kind)
	}
	if err := g.frame.Check(l.limitsOfPeer()); err != nil {
		return 0, err
	}
	if err := l.enterWindow(ctx); err != nil {
		return 0, err
	}
	defer func() { <-l.window }()
	waiting := make(chan answer, 1)
	for {
		id, err = l.sendGift(ctx, g, waiting)
		if !errors.Is(err, channel.ErrTooManyInFlight) {
			break
		}
		if err := l.awaitRoom(ctx); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	return id, l.await(ctx, id, waiting)
}

func (l *link) limitsOfPeer() frame.Limits {
	return frame.Limits{PrefixBytesMax: int(l.peer.PrefixBytesMax), MessageBytesMax: int(l.peer.MessageBytesMax)}
}

// enterWindow waits until the peer owes fewer answers than it allowed.
func (l *link) enterWindow(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case l.window <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.draining:
		return l.err()
	}
	if err := l.err(); err != nil {
		<-l.window
		return err
	}
	return nil
}

func (l *link) awaitRoom(ctx context.Context) error {
	timer := time.NewTimer(crowdedWait)
	defer timer.Stop()
	select {
	case <-l.answered:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return l.err()
	}
	return nil
}

// sendGift sends the frame with the descriptor. After an error the peer will never see
// the frame. If the channel has ended while a part of it was sent, sendGift returns no
// error, and waiting is told.
func (l *link) sendGift(ctx context.Context, g *gift, waiting chan answer) (id uint64, err error) {
	if err := l.enterSending(ctx); err != nil {
		return 0, err
	}
	defer l.leaveSending()
	if err := l.register(&g.frame, asks(frame.Taken, waiting)); err != nil {
		return 0, err
	}
	id = g.frame.ID
	err = withDescriptor(g, l.credentials, func(descriptor int) error {
		l.encoded = g.frame.Append(l.encoded[:0])
		return l.sendEncoded(ctx, descriptor)
	})
	var partial *channel.PartialError
	if err == nil || errors.As(err, &partial) {
		return id, nil
	}
	l.forget(id)
	return 0, err
}

// register draws an id for a question. Its caller has the turn to send. The id is set
// in the frame before the question can be settled, because settling reads it.
func (l *link) register(f *frame.Frame, q question) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return l.ended
	}
	l.lastID++
	f.ID = l.lastID
	l.questions[f.ID] = q
	return nil
}

// forget removes a question and reports whether it was there. If it was not, it was
// settled.
func (l *link) forget(id uint64) (known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known = l.questions[id]
	delete(l.questions, id)
	return known
}

// await waits for the answer to a gift. When the context ends it asks for the gift
// back, and if even that is not answered it ends the channel. In either case it knows
// who owns the gift.
func (l *link) await(ctx context.Context, id uint64, waiting chan answer) error {
	select {
	case a := <-waiting:
		return a.failure()
	case <-ctx.Done():
	}
	if err := l.sendAnswer(&frame.Frame{Type: frame.Recall, ID: id}); err != nil {
		l.end()
	}
	timer := time.NewTimer(wire.HandoffRecallMs * time.Millisecond)
	defer timer.Stop()
	var a answer
	select {
	case a = <-waiting:
	case <-timer.C:
		l.end()
		a = <-waiting
	}
	if err := a.failure(); err != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil
}

// ask sends a frame and waits for the answer, a frame of another type.
func (l *link) ask(ctx context.Context, f frame.Frame, by frame.Type) (answer, error) {
	waiting := make(chan answer, 1)
	id, err := l.sendQuestion(ctx, f, asks(by, waiting))
	if err != nil {
		return answer{}, err
	}
	select {
	case a := <-waiting:
		return a, a.failure()
	case <-ctx.Done():
		l.abandon(id)
		return answer{}, context.Cause(ctx)
	}
}

// abandon removes a question whose answer may still come.
func (l *link) abandon(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q, waits := l.questions[id]; waits {
		delete(l.questions, id)
		l.abandoned[q.answer]++
	}
}

func (l *link) sendQuestion(ctx context.Context, f frame.Frame, q question) (id uint64, err error) {
	if err := l.enterSending(ctx); err != nil {
		return 0, err
	}
	defer l.leaveSending()
	if err := l.register(&f, q); err != nil {
		return 0, err
	}
	id = f.ID
	l.encoded = f.Append(l.encoded[:0])
	if err := l.sendEncoded(ctx, channel.NoDescriptor); err != nil {
		l.forget(id)
		return 0, err
	}
	return id, nil
}

// pending returns how many gifts wait for their answer.
func (l *link) pending() int { return len(l.window) }

// A refusedError is the error for a peer's REFUSED.
type refusedError struct {
	reason  frame.Reason
	message string
}

func (e *refusedError) Error() string {
	text := "the peer refused it: " + e.reason.String()
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}
