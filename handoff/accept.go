package handoff

import (
	"context"
	"net"
	"os"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// accept waits for an arrival, opens it, and takes it. If it cannot be opened it is
// refused, so that its giver keeps it.
func accept[T any](ctx context.Context, q *queue, open func(*arrival) (T, error), discard func(T)) (T, *arrival, error) {
	for {
		a, err := q.take(ctx)
		if err != nil {
			var none T
			return none, nil, err
		}
		opened, err := open(a)
		if err != nil {
			a.refuse(reasonOf(err), err.Error())
			continue
		}
		if a.confirm() == nil {
			return opened, a, nil
		}
		discard(opened)
		a.link.channel.End()
	}
}

func (q *queue) acceptConn(ctx context.Context) (*Conn, error) {
	c, _, err := accept(ctx, q, func(a *arrival) (*Conn, error) {
		bare, err := openConn(a)
		if err != nil {
			return nil, err
		}
		return newConn(bare, a.meta, a.link)
	}, func(c *Conn) {
		// It belongs to its giver, who may already have given it to another process.
		c.shared.Store(true)
		_ = c.Close()
	})
	return c, err
}

func (q *queue) acceptListener(ctx context.Context) (net.Listener, Meta, error) {
	l, a, err := accept(ctx, q, openListener, func(l net.Listener) { _ = l.Close() })
	if err != nil {
		return nil, Meta{}, err
	}
	return l, a.meta, nil
}

func (q *queue) acceptFile(ctx context.Context) (*os.File, Meta, error) {
	f, a, err := accept(ctx, q, openFile, func(f *os.File) { _ = f.Close() })
	if err != nil {
		return nil, Meta{}, err
	}
	return f, a.meta, nil
}

// reasonOf tells a lack of descriptors apart from something of another kind than was
// asked for.
func reasonOf(err error) frame.Reason {
	if isLackOfDescriptors(err) {
		return frame.NoDescriptor
	}
	return frame.WrongKind
}
