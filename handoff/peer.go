package handoff

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// A Peer is a process that this one has dialled in order to give it connections,
// listeners and files. Its methods may be called from any number of goroutines. It
// takes one descriptor and, while the channel lives, two goroutines.
type Peer struct {
	link  *link
	inbox inbox
}

// Dial connects to the process that listens at an address, such as "unix:/path". It
// checks that the process runs as root, as this process's own user, or as one of those
// of WithPeerUsers.
func Dial(ctx context.Context, address string, options ...Option) (*Peer, error) {
	c := newConfig(options)
	p := &Peer{}
	if c.takeBack != nil {
		p.inbox = newInbox(frame.Connection)
	}
	if err := p.dial(ctx, address, c); err != nil {
		return nil, &Error{Op: "dial", Address: address, Err: err}
	}
	if c.takeBack != nil {
		go p.takeBack(c.takeBack)
	}
	return p, nil
}

func (p *Peer) dial(ctx context.Context, address string, c *config) error {
	if err := c.check(); err != nil {
		return err
	}
	ch, credentials, err := connect(ctx, address)
	if err != nil {
		return err
	}
	l := newLink(c, &p.inbox, ch)
	l.address, l.credentials = address, credentials
	err = c.admits(credentials)
	if err == nil {
		err = l.open(ctx)
	}
	if err != nil {
		l.reader.Close() // closes descriptors that came along
		return errors.Join(err, ch.Close())
	}
	p.link = l
	return nil
}

// takeBack passes on the connections that come back, until the channel has ended.
func (p *Peer) takeBack(take func(*Conn)) {
	go func() {
		<-p.link.done
		p.inbox.close()
	}()
	for {
		c, err := p.inbox[frame.Connection].acceptConn(context.Background())
		if err != nil {
			return
		}
		go take(c)
	}
}

// SendConn gives a connection away: a *net.TCPConn, a *net.UnixConn, a *Conn, or any
// other whose socket can be reached. It cannot give a *tls.Conn, whose state is in this
// process.
//
// If it returns nil, the connection belongs to the peer and c is closed. If it returns
// an error, which is always an *Error, c is open, untouched, and still belongs to the
// caller. That is so however the attempt ended: if the context ends first, the peer is
// asked to give c back, and if it does not answer within a second the channel is ended,
// together with everything that the peer had not taken. Nobody may read from c, write
// to it, or close it before SendConn returns.
//
// Untouched means that none of its bytes are lost. A peer that could not say any more
// that it took c may already have set socket options, as package net does: TCP_NODELAY
// and keep-alive.
//
// A peer that is stopped may hold a copy of c in its channel until it goes on. So call
// CloseWrite before you close c after an error; otherwise the client may not notice.
func (p *Peer) SendConn(ctx context.Context, c net.Conn, m Meta) error {
	return sendConn(ctx, p.link, "give", c, m)
}

func sendConn(ctx context.Context, l *link, op string, c net.Conn, m Meta) error {
	what, prefix, err := bare(c)
	if err != nil {
		return &Error{Op: op, Address: l.address, Err: err}
	}
	m.Prefix = append(m.Prefix[:len(m.Prefix):len(m.Prefix)], prefix...)
	if err := l.give(ctx, op, &gift{frame: m.frame(frame.Connection), what: what}); err != nil {
		return err
	}
	closeGiven(c)
	return nil
}

// closeGiven closes only this process's descriptor. A shutdown would act on the peer's
// too.
func closeGiven(c net.Conn) {
	if own, ok := c.(*Conn); ok {
		own.shared.Store(true)
	}
	_ = c.Close()
}

// bare returns the object that holds the connection's descriptor, and the bytes that
// the connection has already read.
func bare(c net.Conn) (what syscall.Conn, prefix []byte, err error) {
	switch c := c.(type) {
	case *tls.Conn:
		return nil, nil, errTLSHere
	case *Conn:
		return c.stream, c.unread(), nil
	case syscall.Conn:
		return c, nil, nil
	}
	return nil, nil, fmt.Errorf("%w: a %T has no socket that could be given", errors.ErrUnsupported, c)
}

// SendListener gives a listener. After that both processes accept from it, until the
// caller closes l.
func (p *Peer) SendListener(ctx context.Context, l net.Listener, m Meta) error {
	return sendOpen(ctx, p.link, frame.Listener, l, m)
}

// SendFile gives a file. The file stays open here as well, and both processes share its
// offset.
func (p *Peer) SendFile(ctx context.Context, f *os.File, m Meta) error {
	return sendOpen(ctx, p.link, frame.File, f, m)
}

func sendOpen(ctx context.Context, l *link, kind frame.Kind, what any, m Meta) error {
	descriptor, ok := what.(syscall.Conn)
	if !ok {
		return &Error{Op: "give", Address: l.address, Err: fmt.Errorf("%w: a %T has no descriptor", errors.ErrUnsupported, what)}
	}
	return l.give(ctx, "give", &gift{frame: m.frame(kind), what: descriptor})
}

// Ping asks the peer for a sign of life and returns when it has answered.
func (p *Peer) Ping(ctx context.Context) error {
	if _, err := p.link.ask(ctx, frame.Frame{Type: frame.Ping}, frame.Pong); err != nil {
		return &Error{Op: "ping", Address: p.link.address, Err: err}
	}
	return nil
}

// Pending returns the number of handoffs that wait for the peer's answer.
func (p *Peer) Pending() int { return p.link.pending() }

// Done returns a channel that is closed when nothing more can be given, because the
// peer takes no more or the channel has ended.
func (p *Peer) Done() <-chan struct{} { return p.link.draining }

// Err returns why Done is closed: ErrDraining, or the error that ended the channel. It
// returns nil if Done is open.
func (p *Peer) Err() error { return p.link.err() }

// Ended returns a channel that is closed when the channel to the peer has ended. After
// that nothing comes back from the peer either.
func (p *Peer) Ended() <-chan struct{} { return p.link.done }

// Credentials returns who the peer is, as the kernel reports it.
func (p *Peer) Credentials() Credentials { return p.link.credentials }

// Close ends the channel. What was given and not taken still belongs to the caller; the
// calls that were giving it return errors.
func (p *Peer) Close() error {
	p.link.end()
	return nil
}
