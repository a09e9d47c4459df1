package front

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/backend"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/head"
	"github.com/nearcall/nearcall/handoff"
)

// A stream is what is accepted and what comes back from a process.
type stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// A visit is a connection while the front holds it.
type visit struct {
	*state
	front  *Front
	stream stream
	client netip.Addr
	listen config.Listen
	// remote and local are set where a load balancer told them.
	remote, local net.Addr
	// from is the process that handed the connection back, for a request that is
	// another's; nil for others.
	from *backend.Socket
	// turn is that of a connection which a process let wait, until it is sent to another.
	turn *backend.Turn
	// resting: it came back between two requests, and nobody expects an answer yet.
	resting bool
	began   time.Time
	// seen is when its first bytes were understood.
	seen time.Time
	// kind and scanner are what was seen of the first bytes.
	kind    head.Kind
	scanner head.Scanner
}

// visit admits a connection, or answers that there are too many.
func (f *Front) visit(s stream, listen config.Listen, from *backend.Socket) *visit {
	v := &visit{state: f.state.Load(), front: f, stream: s, client: clientOf(s.RemoteAddr()), listen: listen, from: from, began: time.Now()}
	if f.guard.admit(v.client) {
		return v
	}
	f.metrics.answered(answerFull)
	v.turnAway()
	return nil
}

// rest admits a connection that came back between two requests.
func (f *Front) rest(c *handoff.Conn) *visit {
	v := &visit{state: f.state.Load(), front: f, stream: c, client: clientOf(c.RemoteAddr()), listen: comesBack, resting: true, began: time.Now()}
	if f.guard.admit(v.client) {
		return v
	}
	c.Close()
	return nil
}

// comesBack is the listener of what a process handed back.
var comesBack = config.Listen{Name: "back", Protocol: config.ProtocolHTTP}

// takeBack is given what a process handed back, in a goroutine of its own.
func (f *Front) takeBack(c *handoff.Conn, from *backend.Socket) {
	f.metrics.returned.Inc()
	if string(c.Meta().Message) == handoff.MessageIdle {
		if v := f.rest(c); v != nil {
			v.run()
		}
		return
	}
	if v := f.visit(c, comesBack, from); v != nil {
		v.run()
	}
}

// A wish is where a client wants to, as far as it said so.
type wish struct{ host, path string }

// run leads the connection to a process, or to an answer.
func (v *visit) run() {
	defer func() { v.front.guard.release(v.client) }()
	if v.listen.ProxyProtocol {
		if err := v.proxied(); err != nil {
			v.answer(v.unseen(err))
			return
		}
	}
	asked, problem, understood := v.look()
	if !understood {
		v.answer(problem)
		return
	}
	if v.turn == nil {
		v.seen = time.Now()
	}
	v.front.metrics.looked.Observe(v.seen.Sub(v.began).Seconds())
	for !v.lead(asked) {
	}
}

// lead gives the connection to the process that its state knows for the wish, or
// answers. Not done: the backend is gone, and the connection got a newer state.
func (v *visit) lead(asked wish) (done bool) {
	to, found := v.find(asked)
	if !found || v.from != nil && to.backend.Has(v.from) {
		v.answer(answerMisdirected)
		return true
	}
	client := v.clientAddress()
	took, err := v.send(to)
	switch {
	case err == nil:
		to.handed.Inc()
		v.log(to, took, asked, client)
		v.front.metrics.gave.Observe(time.Since(v.seen).Seconds())
	case errors.Is(err, backend.ErrRetired) && v.renew():
		return false
	default:
		v.nobody(to, err)
	}
	return true
}

func (v *visit) send(to *destination) (*backend.Socket, error) {
	if v.turn != nil {
		return v.turn.Send(v.front.ctx, to.backend, v.stream, v.meta(to.route))
	}
	return to.backend.Send(v.front.ctx, v.stream, v.meta(to.route))
}

// log writes the line of a connection that was handed over, where it is wanted.
func (v *visit) log(to *destination, took *backend.Socket, asked wish, client net.Addr) {
	if !v.config.Log.Handoffs {
		return
	}
	v.front.log.Info("handed over", "client", client, "listener", v.listen.Name, "route", to.route, "backend", to.backend.Config().Name,
		"socket", took.Address(), "host", asked.host, "path", asked.path, "looked", v.seen.Sub(v.began), "waited", time.Since(v.seen))
}

// renew takes the state of now, and tells whether it is another.
func (v *visit) renew() bool {
	before := v.state
	v.state = v.front.state.Load()
	return v.state != before
}

func (v *visit) find(asked wish) (*destination, bool) {
	if v.kind == head.TLS {
		return v.table.TLS(asked.host)
	}
	return v.table.Request(asked.host, asked.path)
}

// nobody does what the configuration says when no process is there.
func (v *visit) nobody(to *destination, err error) {
	if errors.Is(err, handoff.ErrTooLarge) {
		// It came back with bytes that were read, which a program that is run for
		// each connection cannot be given. On a new connection it can.
		v.answer(answerMisdirected)
		return
	}
	v.front.log.Debug("no process took a connection", "backend", to.backend.Config().Name, "client", v.clientAddress(), "error", err)
	if to.backend.Config().Otherwise == config.OtherwiseClose {
		v.answer(answerNothing)
		return
	}
	v.answer(answerUnavailable)
}

// look waits for what the client sends first. problem is what to answer when that
// is not understood.
func (v *visit) look() (asked wish, problem answer, understood bool) {
	ctx := until{Context: v.front.ctx, end: v.began.Add(v.config.Timeouts.Peek)}
	text, err := handoff.Peek(ctx, v.stream, v.config.Limits.HeadBytesMax, v.enough)
	switch {
	case err != nil:
		return wish{}, v.unseen(err), false
	case v.kind == head.TLS:
		return v.lookTLS(ctx)
	}
	request, err := head.Parse(text)
	switch {
	case errors.Is(err, head.ErrVersion):
		// HTTP/2 without TLS says no host before it is spoken.
		return wish{path: "/"}, answerNothing, true
	case err != nil:
		return wish{}, answerMalformed, false
	}
	return wish{request.Host, request.Path}, answerNothing, true
}

func (v *visit) lookTLS(ctx context.Context) (asked wish, problem answer, understood bool) {
	hello, err := handoff.PeekTLSWithin(ctx, v.stream, v.config.Limits.HeadBytesMax)
	if err != nil {
		return wish{}, v.unseen(err), false
	}
	return wish{host: hello.ServerName}, answerNothing, true
}

var errOtherProtocol = errors.New("not what this address speaks")

// enough tells whether the first bytes decide.
func (v *visit) enough(text []byte) (bool, error) {
	if v.kind == head.Unknown {
		v.kind = head.KindOf(text)
		if v.kind == head.Neither || v.kind == head.TLS && v.listen.Protocol == config.ProtocolHTTP || v.kind == head.HTTP && v.listen.Protocol == config.ProtocolTLS {
			return false, errOtherProtocol
		}
	}
	if v.kind == head.TLS {
		return true, nil
	}
	return v.scanner.Complete(text)
}

// unseen is what is answered when the first bytes did not decide.
func (v *visit) unseen(err error) answer {
	var timeout net.Error
	switch {
	case v.resting && v.kind == head.Unknown:
		// As any server closes a connection that was kept in vain.
		return answerNothing
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return answerNothing
	case errors.Is(err, context.Canceled), errors.Is(err, errCrowded):
		return answerUnavailable
	case errors.Is(err, handoff.ErrTooLarge):
		return answerTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return answerTooSlow
	}
	v.front.log.Debug("a client was not understood", "client", v.clientAddress(), "error", err)
	return answerMalformed
}

// An until is a context with a deadline that needs no timer of its own: whatever
// waits for a connection sets the deadline on it.
type until struct {
	context.Context
	end time.Time
}

// Deadline returns the end.
func (u until) Deadline() (time.Time, bool) { return u.end, true }
