package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// backlogPause is how long a caller waits before it tries a socket again whose backlog
// is full: the kernel does not tell when there is room.
const backlogPause = time.Millisecond

// openingMax bounds an attempt that goes on without its caller, who may have given up. A call
// that has more time makes another attempt.
const openingMax = DefaultTimeout

// An opening is an attempt to connect to an endpoint. One goroutine makes it, and all others
// wait for it.
type opening struct {
	done chan struct{}
	// limit is how long the attempt may take, unless it is made by its caller.
	limit   time.Duration
	failure *status.Error
	// noted is set once a call has noted that there is no answer. Guarded by core.mu.
	noted bool
}

// connect returns the connection to use. It opens one if there is none. If there are other
// endpoints, it opens the connection in a goroutine of its own: a caller that goes elsewhere,
// because this takes long, leaves something behind for later calls. Such an attempt may take until
// the deadline, and in any case as long as one to one of several endpoints.
func (e *endpoint) connect(ctx context.Context, deadlineNs uint64) (*connection, *status.Error) {
	for {
		if current := e.current.Load(); current != nil {
			return current, nil
		}
		limit := e.client.config.connectLimit(e.client.remaining(deadlineNs))
		attempt, first, failure := e.join(limit)
		switch {
		case failure != nil:
			return nil, failure
		case attempt == nil:
			continue
		case first && e.route == nil:
			opened, failure := e.open(ctx, e.client.remaining(deadlineNs))
			e.opened(attempt, opened, failure)
			return opened, failure
		case first:
			go e.openBeside(attempt)
		}
		if failure := e.await(ctx, deadlineNs, attempt, limit); failure != nil {
			return nil, failure
		}
	}
}

// join returns the attempt that is under way, or begins one within a limit, which its caller must
// then make (first is true). It returns neither if an attempt has just ended and left a
// connection.
func (e *endpoint) join(limit time.Duration) (attempt *opening, first bool, failure *status.Error) {
	c := e.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, notExecuted(status.FailedPrecondition, "%w", ErrClosed)
	}
	if e.current.Load() != nil {
		return nil, false, nil
	}
	e.keepInRoute()
	if e.opening == nil {
		e.opening = &opening{done: make(chan struct{}), limit: min(limit, openingMax)}
		return e.opening, true, nil
	}
	return e.opening, false, nil
}

// openBeside makes an attempt for whoever waits for it, or for later calls.
func (e *endpoint) openBeside(attempt *opening) {
	opened, failure := e.open(context.Background(), attempt.limit)
	if failure != nil && failure.Code == status.DeadlineExceeded {
		failure = noAnswer("%s does not answer: no connection within %v", e.address, attempt.limit.Round(time.Millisecond))
	}
	e.opened(attempt, opened, failure)
}

// opened ends an attempt. It starts the reader while it holds the lock, so that Close
// finds the connection.
func (e *endpoint) opened(attempt *opening, made *connection, failure *status.Error) {
	c := e.client
	if c.config.observer != nil {
		e.observeOpening(made, failure)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.opening = nil
	attempt.failure = failure
	c.counts.opening(failure)
	if made != nil {
		made.functions = c.functionsOf(made.welcome.SchemaHash)
		c.living[made] = struct{}{}
		e.current.Store(made)
		go made.read()
	}
	if e.route != nil {
		e.route.opened(e, attempt, made)
	}
	close(attempt.done)
}

// await waits for an attempt that another goroutine makes. If it failed only because of the
// deadline or context of another caller, or within a limit that is shorter than this caller's, the
// failure does not count for this caller.
func (e *endpoint) await(ctx context.Context, deadlineNs uint64, attempt *opening, limit time.Duration) *status.Error {
	timer := e.client.timer(deadlineNs)
	defer timer.Stop()
	select {
	case <-attempt.done:
	case <-ctx.Done():
		return endOfWaiting(ctx, "while connecting").With(status.OutcomeNotExecuted)
	case <-timer.C:
		return endOfWaiting(ctx, "while connecting").With(status.OutcomeNotExecuted)
	}
	failure := attempt.failure
	switch {
	case failure == nil, failure.Code == status.DeadlineExceeded, failure.Code == status.Cancelled:
		return nil
	case errors.Is(failure.Cause, errNoAnswer) && attempt.limit < limit:
		return nil
	}
	shared := *failure
	return &shared
}

// open connects and exchanges hello and welcome. The process that has a connection, or has not
// accepted it yet, may have been stopped while another one that serves the address would answer.
// So open connects anew if the welcome does not come. A server that is merely slow is given
// twice as long each time.
func (e *endpoint) open(ctx context.Context, limit time.Duration) (*connection, *status.Error) {
	ctx, cancel := e.client.openingContext(ctx, limit)
	defer cancel()
	for patience := wire.WelcomeTimeoutMs * time.Millisecond; ; patience *= 2 {
		opened, failure := e.openOnce(ctx, patience)
		if failure == nil || !errors.Is(failure.Cause, errNoWelcome) {
			return opened, failure
		}
		e.client.log.Debug("no welcome yet; connecting anew", "address", e.address)
	}
}

// openOnce is open with one connection. The failure has the cause errNoWelcome if the welcome
// has not come within patience.
func (e *endpoint) openOnce(ctx context.Context, patience time.Duration) (*connection, *status.Error) {
	conn, err := e.dial(ctx)
	if err != nil {
		return nil, e.dialFailure(ctx, err)
	}
	opened, failure := e.handshake(ctx, conn, patience)
	if failure != nil {
		_ = conn.Close()
		return nil, failure
	}
	e.client.log.Debug("connected", "address", e.address, "server", opened.welcome.Software, "process", opened.welcome.ProcessID)
	return opened, nil
}

// openingContext returns a context that ends with the caller's, after the time limit, and
// with the client.
func (c *core) openingContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if c.config.connectTimeout > 0 {
		limit = min(limit, c.config.connectTimeout)
	}
	ctx, abort := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { abort(ErrClosed) })
	ctx, cancel := context.WithDeadline(ctx, time.Now().Add(limit))
	return ctx, func() {
		cancel()
		stop()
		abort(nil)
	}
}

// dial connects. If the server's backlog is full it waits for room.
func (e *endpoint) dial(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := e.dialOnce(ctx)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(backlogPause):
		}
	}
}

// dialOnce connects by the option, where there is one, or by the transport.
func (e *endpoint) dialOnce(ctx context.Context) (net.Conn, error) {
	dial := e.client.config.dial
	if dial == nil {
		return e.transport.Dial(ctx, e.address)
	}
	conn, err := dial(ctx, e.address.String())
	if err != nil {
		return nil, err
	}
	if secure, ok := e.transport.(transport.Securing); ok {
		return secure.Over(conn, e.address)
	}
	return e.transport.Wrap(conn), nil
}

// dialFailure says who did not answer, why, and what to look at.
func (e *endpoint) dialFailure(ctx context.Context, err error) *status.Error {
	// Package net notices a deadline a moment before the context does.
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return endOfWaiting(ctx, fmt.Sprintf("while connecting to %s", e.address)).With(status.OutcomeNotExecuted)
	}
	var unusable *transport.Unusable
	if errors.As(err, &unusable) {
		return notExecuted(status.InvalidArgument, "%s: %w", e.address, unusable)
	}
	code, hint := status.Unavailable, "is it running?"
	switch {
	case errors.Is(err, fs.ErrPermission):
		code, hint = status.PermissionDenied, "the socket's mode and its directory's do not let this user connect"
	case errors.Is(err, fs.ErrNotExist):
		hint = "is it running, and is this its address?"
	}
	failure := notExecuted(code, "no server at %s: %s; %s", e.address, rootCause(err), hint)
	failure.Cause = err
	return failure
}

// rootCause returns the error's text without the address, which package net repeats.
func rootCause(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// newConnection makes a connection once the hello was accepted. surplus is what was
// read after the welcome.
func (e *endpoint) newConnection(carrier transport.OfferingCarrier, welcome *wire.Welcome, surplus []byte) *connection {
	made := &connection{client: e.client, endpoint: e, carrier: carrier, welcome: *welcome,
		left: make(chan struct{}), ended: make(chan struct{})}
	made.role.recall = make(chan struct{}, 1)
	made.output.init(carrier)
	made.callsMax = int(welcome.CallsInFlightMax)
	made.reader.init(uint32(e.client.config.frameBytesMax), welcome.Accepted, surplus)
	made.expectDescriptors(welcome.Accepted)
	if welcome.Accepted&wire.FeatureStores != 0 {
		made.stores.init(welcome.ValueBytesMax, made.isTrusted())
	}
	made.expiry.atNs = noDeadline
	return made
}
