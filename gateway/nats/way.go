package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
)

const (
	// remoteConnect bounds how long connecting to a server takes.
	remoteConnect = wire.EndpointConnectMs * time.Millisecond
	// remoteSilence is after how long without a sign of life a connection is given up.
	remoteSilence = time.Second
	// askWithin is for how long a server is looked for whose connection was lost, in order to ask
	// what became of calls. Their callers wait meanwhile. askLeast is the least that one try has.
	askWithin = 500 * time.Millisecond
	askLeast  = 150 * time.Millisecond
	// askOver is when everybody has given up asking, so that connecting may take its time again.
	askOver = 2 * time.Second
)

// A way is how a remote server is called: through the engine, or directly.
type way struct {
	remote  *remote
	client  *client.Client
	connect func(ctx context.Context) (net.Conn, error)
	// lostMs is when a connection was lost after which there was no other, or 0.
	lostMs atomic.Uint64
	// calls is how many calls directly has let begin, and left is set when no more are to come. mu
	// of the remote protects both.
	calls int
	left  bool
}

// newWay returns a way whose client has connections that connect makes.
func (r *remote) newWay(address string, connect func(ctx context.Context) (net.Conn, error), options ...client.Option) (w *way, err error) {
	w = &way{remote: r, connect: connect}
	observer := &observe.Observer{
		ConnectionOpened: func(*observe.Connection) { w.lostMs.Store(0) },
		ConnectionEnded: func(_ *observe.Connection, reason error) {
			if reason != nil {
				w.lostMs.Store(r.gateway.clock.Ms())
			}
		},
	}
	w.client, err = client.New(address, append(options, client.WithDialer(w.dial), client.WithObserver(observer), client.WithoutSharedMemory(),
		client.WithSilence(remoteSilence), client.WithDirect(client.DirectOff), client.WithConnectTimeout(remoteConnect),
		client.WithTimeout(client.NoTimeout), client.WithName("nearcall gateway"), client.WithLogger(r.gateway.log))...)
	return w, err
}

// dial connects to the server. After a connection was lost, the client asks the server what became of
// calls, and tries for as long as there might be an answer. The error says whether it may try again:
// ECONNREFUSED says that it must not.
func (w *way) dial(ctx context.Context, _ string) (net.Conn, error) {
	lostMs := w.lostMs.Load()
	limit, asking := w.limit(lostMs)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := w.connect(ctx)
	if err == nil {
		return conn, nil
	}
	if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v", limit)
	}
	if asking && w.remote.gateway.clock.Ms() < lostMs+uint64(askWithin.Milliseconds()) {
		return nil, &goneError{err, syscall.EHOSTUNREACH}
	}
	return nil, &goneError{err, syscall.ECONNREFUSED}
}

// limit returns how long connecting may take. asking is set if a connection was lost just now.
func (w *way) limit(lostMs uint64) (limit time.Duration, asking bool) {
	since := time.Duration(w.remote.gateway.clock.Ms()-lostMs) * time.Millisecond
	if lostMs == 0 || since > askOver {
		return remoteConnect, false
	}
	return max(askWithin-since, askLeast), true
}

// isLost reports whether a connection was lost just now, and there is no other yet.
func (r *remote) isLost() bool {
	for _, w := range []*way{r.small, r.large} {
		if _, asking := w.limit(w.lostMs.Load()); asking {
			return true
		}
	}
	return false
}

// A goneError says why a server cannot be connected to, and by as whether it may be tried again.
type goneError struct {
	why error
	as  syscall.Errno
}

// Error implements error.
func (e *goneError) Error() string { return e.why.Error() }

// Is makes errors.Is see what the error counts as.
func (e *goneError) Is(target error) bool { return target == e.as }
