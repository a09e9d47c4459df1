package handoff

import (
	"context"
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// Takeover asks the process that listens at an address for what it listens on (see
// WithListeners), and returns it. That process goes on accepting until it closes its
// own listeners; until then either process may accept a connection. The options are
// those of Dial.
func Takeover(ctx context.Context, address string, options ...Option) ([]Item, error) {
	p := &Peer{inbox: newInbox(frame.Listener, frame.File)}
	if err := p.dial(ctx, address, newConfig(options)); err != nil {
		return nil, &Error{Op: "take over", Address: address, Err: err}
	}
	defer func() { _ = p.Close() }()
	items, err := p.want(ctx)
	if err != nil {
		closeItems(items)
		return nil, &Error{Op: "take over", Address: address, Err: err}
	}
	return items, nil
}

// want asks for the listeners, and accepts items until the answer says that those were
// all.
func (p *Peer) want(ctx context.Context) ([]Item, error) {
	if p.link.peer.Takes&frame.TakesRequests == 0 {
		return nil, fmt.Errorf("%w: the process gives no listeners away", errors.ErrUnsupported)
	}
	accepting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	listeners := gather(accepting, func(ctx context.Context) (Item, error) {
		l, m, err := p.inbox[frame.Listener].acceptListener(ctx)
		return Item{Name: m.Name, Listener: l, Meta: m}, err
	})
	files := gather(accepting, func(ctx context.Context) (Item, error) {
		f, m, err := p.inbox[frame.File].acceptFile(ctx)
		return Item{Name: m.Name, File: f, Meta: m}, err
	})
	a, err := p.link.ask(ctx, frame.Frame{Type: frame.Want}, frame.Done)
	if err == nil && a.message != "" {
		err = errors.New(a.message)
	}
	stop(errGone)
	return append(<-listeners, <-files...), err
}

// gather accepts items until the context ends, and then sends all of them.
func gather(ctx context.Context, accept func(context.Context) (Item, error)) <-chan []Item {
	gathered := make(chan []Item, 1)
	go func() {
		var items []Item
		for {
			item, err := accept(ctx)
			if err != nil {
				gathered <- items
				return
			}
			items = append(items, item)
		}
	}()
	return gathered
}

// onWant gives what this process listens on, in a goroutine of its own, because the
// reader has to read the answers.
func (l *link) onWant(f *frame.Frame, _ int) error {
	if l.config.listeners == nil {
		return fmt.Errorf("%w: it asks for listeners, which this side did not offer", frame.ErrProtocol)
	}
	id, name := f.ID, f.Name
	l.mu.Lock()
	busy := l.wanted
	l.wanted = true
	l.mu.Unlock()
	if busy {
		return fmt.Errorf("%w: it asks for listeners twice at a time", frame.ErrProtocol)
	}
	go func() {
		done := frame.Frame{Type: frame.Done, ID: id}
		if err := l.giveItems(l.config.listeners(name)); err != nil {
			// Without a message it would look like a success.
			if done.Message = l.fitting(err.Error()); len(done.Message) == 0 {
				l.channel.End()
			}
		}
		l.mu.Lock()
		l.wanted = false
		l.mu.Unlock()
		if err := l.sendAnswer(&done); err != nil {
			l.channel.End()
		}
	}()
	return nil
}

func (l *link) giveItems(items []Item) error {
	for _, item := range items {
		kind, what := frame.Listener, any(item.Listener)
		if item.Listener == nil {
			kind, what = frame.File, item.File
		}
		m := item.Meta
		m.Name = item.Name
		if err := sendOpen(context.Background(), l, kind, what, m); err != nil {
			return fmt.Errorf("%s: %w", item.Name, err)
		}
	}
	return nil
}
