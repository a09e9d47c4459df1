package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/channel"
	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// errChannelEnded is the answer to gifts that nobody had taken when their channel
// ended. They belong to their giver.
var errChannelEnded error = channel.EndedError("the channel ended before it was taken")

// A link is one side of a channel after the hellos. It both gives and receives. Its
// reader, a goroutine, handles every frame from the peer and never waits for the
// program.
type link struct {
	config      *config
	channel     *channel.Channel
	reader      *channel.Reader
	address     string // the peer's, for errors
	peer        frame.Hello
	credentials Credentials
	inbox       *inbox

	// sending is full while somebody sends a frame. Ids grow in the order in which
	// frames are sent.
	sending chan struct{}
	lastID  uint64
	encoded []byte

	window chan struct{} // has a place for each gift that is not answered

	mu          sync.Mutex
	questions   map[uint64]question // gifts, pings and wants
	abandoned   map[frame.Type]int  // answers that may still come, but for which nobody waits
	arrivals    map[uint64]*arrival // neither taken nor refused yet
	lastArrival uint64
	refuse      bool  // this side takes no more
	held        int   // connections in this process that came by this link and may go back
	ended       error // why the reader has ended; nil if it has not
	wanted      bool  // a WANT is being answered

	bare bool // the peer does not speak the protocol, so nothing is answered

	replies  chan frame.Frame // what the reader answers; made when the hellos are over
	answered chan struct{}    // a gift was answered; holds one
	draining chan struct{}    // closed when the peer takes no more, or the channel has ended
	done     chan struct{}    // closed when the reader has ended
	drainOne sync.Once
}

// repliesMax is more answers than can be owed to a peer that keeps to its window.
const repliesMax = 2 * wire.HandoffWindowCeiling

// A question is what one of this side's ids stands for.
type question struct {
	answer frame.Type   // the type of its answer; a gift can also be refused
	settle func(answer) // called once, by the reader, so it must not wait
}

// asks returns a question for whose answer somebody waits. The channel holds one
// answer.
func asks(by frame.Type, waiting chan answer) question {
	return question{by, func(a answer) { waiting <- a }}
}

// An answer is what came back for an id.
type answer struct {
	reason  frame.Reason
	message string
	err     error // set if the channel ended before the answer
}

func newLink(c *config, in *inbox, ch *channel.Channel) *link {
	limits := frame.Limits{PrefixBytesMax: c.prefixBytesMax, MessageBytesMax: c.messageBytesMax}
	return &link{
		config: c, inbox: in, channel: ch, reader: channel.NewReader(ch, limits),
		sending:   make(chan struct{}, 1),
		questions: make(map[uint64]question),
		abandoned: make(map[frame.Type]int),
		arrivals:  make(map[uint64]*arrival),
		answered:  make(chan struct{}, 1),
		draining:  make(chan struct{}),
		done:      make(chan struct{}),
	}
}

// handlers handle the frames of each type. An error ends the channel.
var handlers = [...]func(l *link, f *frame.Frame, descriptor int) error{
	frame.Give:    (*link).onGive,
	frame.Taken:   (*link).onAnswer,
	frame.Refused: (*link).onAnswer,
	frame.Recall:  (*link).onRecall,
	frame.Drain:   (*link).onDrain,
	frame.Want:    (*link).onWant,
	frame.Done:    (*link).onAnswer,
	frame.Ping:    (*link).onPing,
	frame.Pong:    (*link).onAnswer,
}

// read handles frames until the channel ends.
func (l *link) read() {
	for {
		f, descriptor, err := l.reader.Next()
		if err == nil {
			err = handlers[f.Type](l, &f, descriptor)
		}
		if err != nil {
			l.finish(err)
			return
		}
	}
}

// finish settles everything when the channel has ended: what was given and not taken
// belongs to the giver, and what arrived and was not taken is dropped.
func (l *link) finish(err error) {
	if errors.Is(err, io.EOF) {
		err = l.channel.WhyEnded()
	}
	l.mu.Lock()
	l.ended = err
	questions, arrivals := l.questions, l.arrivals
	l.questions, l.arrivals = nil, nil
	l.mu.Unlock()
	for _, q := range questions {
		q.settle(answer{err: fmt.Errorf("%w: %w", errChannelEnded, err)})
	}
	for _, a := range arrivals {
		a.drop()
	}
	l.reader.Close()
	_ = l.channel.Close()
	l.drainOne.Do(func() { close(l.draining) })
	close(l.done)
}

// end ends the channel and returns when everything is settled.
func (l *link) end() {
	l.channel.End()
	<-l.done
}

// err returns why nothing more can be given, or nil if something can.
func (l *link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return l.ended
	}
	select {
	case <-l.draining:
		return ErrDraining
	default:
		return nil
	}
}

// enterSending waits for the turn to send. A goroutine that gets it must call leaveSending.
func (l *link) enterSending(ctx context.Context) error {
	select {
	case l.sending <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.sending <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return l.err()
	}
}

// leaveSending ends the turn to send. It also bounds the buffer that a link keeps.
func (l *link) leaveSending() {
	if cap(l.encoded) > encodedBytesKept {
		l.encoded = nil
	}
	<-l.sending
}

// sendEncoded sends what is encoded. Its caller has the turn to send.
func (l *link) sendEncoded(ctx context.Context, descriptor int) error {
	done, err := l.channel.TrySend(l.encoded, descriptor)
	if !done {
		err = l.channel.Finish(ctx)
	}
	return l.endIfPartial(err)
}

// endIfPartial ends the channel if only a part of a frame was sent, because nothing can
// follow that. The reader settles the rest.
func (l *link) endIfPartial(err error) error {
	var partial *channel.PartialError
	if errors.As(err, &partial) {
		l.channel.End()
	}
	return err
}

// encodedBytesKept bounds the buffer that a link keeps.
const encodedBytesKept = 16 << 10

// answerTimeout bounds how long an answer may wait for a peer that does not read.
const answerTimeout = wire.HandoffRecallMs * time.Millisecond

// reply hands an answer of the reader, which must not wait, to writeReplies. A peer
// that keeps to its window never fills the queue.
func (l *link) reply(f frame.Frame) error {
	select {
	case l.replies <- f:
		return nil
	default:
		return fmt.Errorf("%w: it asks and does not read the answers", frame.ErrProtocol)
	}
}

// writeReplies sends the answers of the reader, in a goroutine of its own.
func (l *link) writeReplies() {
	for {
		select {
		case f := <-l.replies:
			if err := l.sendAnswer(&f); err != nil {
				l.channel.End()
				return
			}
		case <-l.done:
			return
		}
	}
}

// sendAnswer sends a frame that answers or recalls another, and so has no new id.
func (l *link) sendAnswer(f *frame.Frame) error { return l.sendAnswerWithin(answerTimeout, f) }

func (l *link) sendAnswerWithin(timeout time.Duration, f *frame.Frame) error {
	if l.bare {
		return nil
	}
	var wait context.Context // made only if there is something to wait for
	select {
	case l.sending <- struct{}{}:
	default:
		bounded, cancel := answerContext(timeout)
		defer cancel()
		if err := l.enterSending(bounded); err != nil {
			return err
		}
		wait = bounded
	}
	defer l.leaveSending()
	l.encoded = f.Append(l.encoded[:0])
	done, err := l.channel.TrySend(l.encoded, channel.NoDescriptor)
	if done {
		return err
	}
	if wait == nil {
		bounded, cancel := answerContext(timeout)
		defer cancel()
		wait = bounded
	}
	return l.endIfPartial(l.channel.Finish(wait))
}

func answerContext(timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), timeout, os.ErrDeadlineExceeded)
}

// onAnswer settles the question with the id of the frame.
func (l *link) onAnswer(f *frame.Frame, _ int) error {
	l.mu.Lock()
	q, found := l.questions[f.ID]
	fits := found && (f.Type == q.answer || f.Type == frame.Refused && q.answer == frame.Taken)
	if fits {
		delete(l.questions, f.ID)
	}
	late := !found && f.ID <= l.lastID && l.abandoned[f.Type] > 0
	if late {
		l.abandoned[f.Type]--
	}
	l.mu.Unlock()
	if late {
		return nil
	}
	if !fits {
		return fmt.Errorf("%w: a frame of type %d for %d, which does not wait for one", frame.ErrProtocol, f.Type, f.ID)
	}
	q.settle(answer{reason: f.Reason, message: string(f.Message)})
	select {
	case l.answered <- struct{}{}:
	default:
	}
	return nil
}

// failure returns why a gift was not taken, or nil if it was.
func (a answer) failure() error {
	if a.reason != 0 {
		return &refusedError{reason: a.reason, message: a.message}
	}
	return a.err
}

func (l *link) onDrain(*frame.Frame, int) error {
	l.drainOne.Do(func() { close(l.draining) })
	return nil
}

func (l *link) onPing(f *frame.Frame, _ int) error {
	return l.reply(frame.Frame{Type: frame.Pong, ID: f.ID})
}
