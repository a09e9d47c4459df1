package handoff

import (
	"net"
	"time"

	"github.com/nearcall/nearcall/handoff/internal/frame"
	"github.com/nearcall/nearcall/internal/wire"
)

// OfferConn gives a connection away as SendConn does, without waiting for the answer.
// It is for programs that give many connections away, as it takes no goroutine.
//
// It returns true if c is on its way. Then done is called once, with what SendConn
// would have returned; it must not wait, because others wait for the goroutine that
// calls it. Nobody may use c before that. recall asks the peer to give c back, and does
// not wait either; done is then told whether it came back.
//
// It returns false if the channel has ended, or if giving c would have to wait, as
// SendConn does. Then c still belongs to the caller and done is never called.
func (p *Peer) OfferConn(c net.Conn, m Meta, done func(error)) (recall func(), offered bool) {
	what, prefix, err := bare(c)
	if err != nil {
		return nil, false
	}
	m.Prefix = append(m.Prefix[:len(m.Prefix):len(m.Prefix)], prefix...)
	o := &offer{link: p.link, gift: gift{frame: m.frame(frame.Connection), what: what}, answered: make(chan struct{})}
	o.done = func(err error) {
		if err == nil {
			closeGiven(c)
		}
		done(err)
	}
	if !o.send() {
		return nil, false
	}
	return func() { go o.recall() }, true
}

// An offer is a gift for whose answer nobody waits.
type offer struct {
	link     *link
	gift     gift
	done     func(error)
	answered chan struct{}
}

func (o *offer) send() bool {
	l := o.link
	if l.peer.Takes&frame.TakesConnections == 0 || o.gift.frame.Check(l.limitsOfPeer()) != nil || l.err() != nil {
		return false
	}
	select {
	case l.window <- struct{}{}:
	default:
		return false
	}
	select {
	case l.sending <- struct{}{}:
	default:
		<-l.window
		return false
	}
	return o.sendInTurn()
}

// sendInTurn sends the offer. Its caller has a place in the window and the turn to
// send.
func (o *offer) sendInTurn() bool {
	l := o.link
	if err := l.register(&o.gift.frame, question{frame.Taken, o.settle}); err != nil {
		l.leaveSending()
		<-l.window
		return false
	}
	whole := false
	err := withDescriptor(&o.gift, l.credentials, func(descriptor int) (err error) {
		l.encoded = o.gift.frame.Append(l.encoded[:0])
		whole, err = l.channel.TrySend(l.encoded, descriptor)
		return err
	})
	switch {
	case err == nil && !whole:
		go o.finish()
		return true
	case err == nil:
		l.leaveSending()
		return true
	}
	_ = l.endIfPartial(err)
	known := l.forget(o.gift.frame.ID)
	l.leaveSending()
	if !known {
		return true // the channel has ended, and its end has settled the offer
	}
	<-l.window
	return false
}

// finish sends the rest to a peer that does not read at the moment.
func (o *offer) finish() {
	l := o.link
	ctx, cancel := answerContext(wire.HandoffRecallMs * time.Millisecond)
	defer cancel()
	err := l.endIfPartial(l.channel.Finish(ctx))
	l.leaveSending()
	if err != nil && l.forget(o.gift.frame.ID) {
		o.settle(answer{err: err})
	}
}

func (o *offer) settle(a answer) {
	close(o.answered)
	<-o.link.window
	if err := a.failure(); err != nil {
		o.done(o.link.failed("give", o.gift.frame.ID, err))
		return
	}
	o.done(nil)
}

// recall asks for the gift back. If even that is not answered it ends the channel.
func (o *offer) recall() {
	l := o.link
	if err := l.sendAnswer(&frame.Frame{Type: frame.Recall, ID: o.gift.frame.ID}); err != nil {
		l.end()
	}
	timer := time.NewTimer(wire.HandoffRecallMs * time.Millisecond)
	defer timer.Stop()
	select {
	case <-o.answered:
	case <-timer.C:
		l.end()
	}
}
