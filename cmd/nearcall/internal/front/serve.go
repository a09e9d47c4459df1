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
	front    *Front
	stream   stream
	client   netip.Addr
	protocol config.Protocol
	// from is the process that handed the connection back; nil for new ones.
	from  *backend.Socket
	began time.Time
	// kind and scanner are what was seen of the first bytes.
	kind    head.Kind
	scanner head.Scanner
}

// visit admits a connection, or answers that there are too many.
func (f *Front) visit(s stream, protocol config.Protocol, from *backend.Socket) *visit {
	v := &visit{state: f.state.Load(), front: f, stream: s, client: clientOf(s.RemoteAddr()), protocol: protocol, from: from, began: time.Now()}
	if f.guard.admit(v.client) {
		return v
	}
	f.metrics.answered(answerFull)
	v.turnAway()
	return nil
}

// takeBack is given what a process handed back, in a goroutine of its own.
func (f *Front) takeBack(c *handoff.Conn, from *backend.Socket) {
	f.metrics.returned.Inc()
	if v := f.visit(c, config.ProtocolHTTP, from); v != nil {
		v.run()
	}
}

// run leads the connection to a process, or to an answer.
func (v *visit) run() {
	defer v.front.guard.release(v.client)
	to, problem := v.look()
	if to == nil {
		v.answer(problem)
		return
	}
	seen := time.Now()
	v.front.metrics.looked.Observe(seen.Sub(v.began).Seconds())
	if v.from != nil && to.backend.Has(v.from) {
		v.answer(answerMisdirected)
		return
	}
	if err := to.backend.Send(v.front.ctx, v.stream, handoff.Meta{Name: to.route}); err != nil {
		v.nobody(to, err)
		return
	}
	to.handed.Inc()
	v.front.metrics.gave.Observe(time.Since(seen).Seconds())
}

// nobody does what the configuration says when no process is there.
func (v *visit) nobody(to *destination, err error) {
	if errors.Is(err, handoff.ErrTooLarge) {
		// It came back with bytes that were read, which a program that is run for
		// each connection cannot be given. On a new connection it can.
		v.answer(answerMisdirected)
		return
	}
	v.front.log.Debug("no process took a connection", "backend", to.backend.Config().Name, "client", v.stream.RemoteAddr(), "error", err)
	if to.backend.Config().Otherwise == config.OtherwiseClose {
		v.answer(answerNothing)
		return
	}
	v.answer(answerUnavailable)
}

// look chooses the destination by what the client sent first.
func (v *visit) look() (*destination, answer) {
	ctx := until{Context: v.front.ctx, end: v.began.Add(v.config.Timeouts.Peek)}
	text, err := handoff.Peek(ctx, v.stream, v.config.Limits.HeadBytesMax, v.enough)
	switch {
	case err != nil:
		return nil, v.unseen(err)
	case v.kind == head.TLS:
		return v.lookTLS(ctx)
	}
	request, err := head.Parse(text)
	if errors.Is(err, head.ErrVersion) {
		// HTTP/2 without TLS says no host before it is spoken.
		request = head.Request{Path: "/"}
	} else if err != nil {
		return nil, answerMalformed
	}
	to, found := v.table.Request(request.Host, request.Path)
	if !found {
		return nil, answerMisdirected
	}
	return to, answerNothing
}

func (v *visit) lookTLS(ctx context.Context) (*destination, answer) {
	hello, err := handoff.PeekTLS(ctx, v.stream)
	if err != nil {
		return nil, v.unseen(err)
	}
	to, found := v.table.TLS(hello.ServerName)
	if !found {
		return nil, answerMisdirected
	}
	return to, answerNothing
}

var errOtherProtocol = errors.New("not what this address speaks")

// enough tells whether the first bytes decide.
func (v *visit) enough(text []byte) (bool, error) {
	if v.kind == head.Unknown {
		v.kind = head.KindOf(text)
		if v.kind == head.Neither || v.kind == head.TLS && v.protocol == config.ProtocolHTTP || v.kind == head.HTTP && v.protocol == config.ProtocolTLS {
			return false, errOtherProtocol
		}
	}
	return v.kind == head.TLS || v.scanner.Complete(text), nil
}

// unseen is what is answered when the first bytes did not decide.
func (v *visit) unseen(err error) answer {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return answerNothing
	case errors.Is(err, context.Canceled):
		return answerUnavailable
	case errors.Is(err, handoff.ErrTooLarge):
		return answerTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		return answerTooSlow
	}
	v.front.log.Debug("a client was not understood", "client", v.stream.RemoteAddr(), "error", err)
	return answerMalformed
}

// An until is a context with a deadline that needs no timer of its own: who waits
// for a connection gives it the deadline.
type until struct {
	context.Context
	end time.Time
}

// Deadline returns the end.
func (u until) Deadline() (time.Time, bool) { return u.end, true }
