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

// A Peer is a process that was dialled to be given connections, listeners and
// files. Its methods may be called by any number of goroutines. It keeps one
// descriptor and, while the channel lives, two goroutines.
type Peer struct {
	link  *link
	inbox inbox
}

// Dial connects to the process that listens on an address, as "unix:/path", and
// checks that its user is root, this process's own, or allowed by WithPeerUsers.
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
		l.reader.Close() // of descriptors that came with it
		return errors.Join(err, ch.Close())
	}
	p.link = l
	return nil
}

// takeBack runs until the channel has ended.
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

// SendConn gives a connection away: a *net.TCPConn, a *net.UnixConn, a *Conn, or
// any other whose socket can be reached. After nil it is the peer's and c is
// closed. After an error, always an *Error, c is open, untouched, and still the
// caller's, however the attempt ended: where the context ends first the peer is
// asked to give c back, and where it cannot answer within a second the channel is
// ended, with all that it had not taken.
//
// Untouched are its bytes. A peer that did not come to say that it took c may have set
// options of the socket before, as package net does: TCP_NODELAY and keep-alive.
//
// A peer that was stopped may have a copy of c in its channel for as long as it is:
// whoever closes c after an error calls CloseWrite first, or its client is not told.
//
// Nobody may read from c, write to it or close it meanwhile. A *tls.Conn cannot be
// given: its state is in this process.
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

// closeGiven closes only the descriptor: a shutdown would act on the peer's too.
func closeGiven(c net.Conn) {
	if own, ok := c.(*Conn); ok {
		own.shared.Store(true)
	}
	_ = c.Close()
}

// bare returns what has the connection's descriptor, and what it has read ahead.
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

// SendListener gives a listener. Afterwards both processes accept from it, until
// the caller closes l.
func (p *Peer) SendListener(ctx context.Context, l net.Listener, m Meta) error {
	return sendOpen(ctx, p.link, frame.Listener, l, m)
}

// SendFile gives a file, which stays open here too; its offset is shared.
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

// Ping asks whether the peer is there and returns when it has answered.
func (p *Peer) Ping(ctx context.Context) error {
	if _, err := p.link.ask(ctx, frame.Frame{Type: frame.Ping}, frame.Pong); err != nil {
		return &Error{Op: "ping", Address: p.link.address, Err: err}
	}
	return nil
}

// Pending returns how many handoffs wait for the peer's answer.
func (p *Peer) Pending() int { return p.link.pending() }

// Done is closed when nothing more can be given: the peer drains, or the channel
// has ended.
func (p *Peer) Done() <-chan struct{} { return p.link.draining }

// Err returns why Done is closed: ErrDraining, or what ended the channel.
func (p *Peer) Err() error { return p.link.err() }

// Ended is closed when the channel has ended, and with it the way back.
func (p *Peer) Ended() <-chan struct{} { return p.link.done }

// Credentials returns who the peer is, as the kernel said.
func (p *Peer) Credentials() Credentials { return p.link.credentials }

// Close ends the channel. What was given and not taken stays the caller's: those
// calls return errors.
func (p *Peer) Close() error {
	p.link.end()
	return nil
}
