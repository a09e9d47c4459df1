package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/observe"
	"github.com/nearcall/nearcall/status"
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
	// largeBytes is from where on arguments travel by a connection of their own, so that small ones
	// need not wait behind them.
	largeBytes = 64 << 10
)

// A remote is a server behind another gateway, or behind several. It is known by the number in its
// welcome, so that it can be asked about calls after its gateway was replaced.
type remote struct {
	gateway  *Gateway
	instance instanceNumber
	name     string // of the server
	label    string // what its clients call it

	small, large *client.Client

	mu     sync.Mutex
	places []place // by which it can be reached
	calls  int
	// retired is set while it is not announced. It is closed when no call needs it any more.
	retired, closed bool
	// lostMs is when a connection was lost after which there was no other, or 0.
	lostMs uint64
}

// remotes are those that calls go to.
type remotes struct {
	gateway *Gateway
	mu      sync.Mutex
	all     map[instanceNumber]*remote
}

// set makes the remotes those at the places, and retires all others.
func (r *remotes) set(places []place) {
	by := map[instanceNumber][]place{}
	for _, p := range places {
		by[p.instance] = append(by[p.instance], p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for instance, those := range by {
		if _, err := r.getLocked(instance, those); err != nil {
			r.gateway.log.Warn("a server of another machine cannot be called", "server", those[0].server, "error", err)
		}
	}
	for instance, one := range r.all {
		if by[instance] == nil && one.retire() {
			delete(r.all, instance)
		}
	}
}

// getLocked returns the remote with a number, which can be reached at these places from now on.
func (r *remotes) getLocked(instance instanceNumber, places []place) (*remote, error) {
	if known := r.all[instance]; known != nil && known.moveTo(places) {
		return known, nil
	}
	made, err := newRemote(r.gateway, places)
	if err == nil {
		r.all[instance] = made
	}
	return made, err
}

// of returns the remote with a number, or nil.
func (r *remotes) of(instance instanceNumber) *remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[instance]
}

// schema asks a server for its schema, over a connection of its own.
func (r *remotes) schema(ctx context.Context, at place) (*client.Document, error) {
	asked, err := newRemote(r.gateway, []place{at})
	if err != nil {
		return nil, err
	}
	defer asked.shut()
	return asked.small.Schema(ctx)
}

// close closes all of them.
func (r *remotes) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for instance, one := range r.all {
		one.shut()
		delete(r.all, instance)
	}
}

func newRemote(g *Gateway, places []place) (made *remote, err error) {
	made = &remote{gateway: g, instance: places[0].instance, name: places[0].server, places: places}
	made.label = "tcp:" + hostLabel(made.name+"."+places[0].host) + ":1"
	if made.small, err = made.newClient(); err != nil {
		return nil, err
	}
	if made.large, err = made.newClient(); err != nil {
		return nil, errors.Join(err, made.small.Close())
	}
	return made, nil
}

// hostLabel makes a host of a text that others have chosen.
func hostLabel(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, text)
}

func (r *remote) newClient() (*client.Client, error) {
	return client.New(r.label, client.WithDialer(r.dial), client.WithoutSharedMemory(), client.WithSilence(remoteSilence), client.WithDirect(client.DirectOff),
		client.WithName("nearcall gateway"), client.WithLogger(r.gateway.log), client.WithTimeout(client.NoTimeout),
		client.WithConnectTimeout(remoteConnect),
		client.WithObserver(&observe.Observer{
			ConnectionOpened: func(*observe.Connection) { r.note(0) },
			ConnectionEnded: func(_ *observe.Connection, reason error) {
				if reason != nil {
					r.note(r.gateway.clock.Ms())
				}
			},
		}))
}

// note notes when a connection was lost, or that there is one.
func (r *remote) note(lostMs uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostMs = lostMs
}

// moveTo sets by which gateways the server can be reached. It returns false if the remote was
// closed.
func (r *remote) moveTo(places []place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.places, r.retired = places, false
	return true
}

// retire closes the remote when no call uses it any more, and reports whether that is so already.
func (r *remote) retire() (closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired, r.places = true, nil
	return r.closeIfUnusedLocked()
}

func (r *remote) closeIfUnusedLocked() bool {
	if r.retired && r.calls == 0 && !r.closed {
		r.closed = true
		// Closing waits for connections to end, which the caller must not.
		go r.closeClients()
	}
	return r.closed
}

func (r *remote) shut() {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if first {
		r.closeClients()
	}
}

func (r *remote) closeClients() {
	_ = r.small.Close()
	_ = r.large.Close()
}

// begin notes a call. It returns false if the remote was closed.
func (r *remote) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.calls++
	return true
}

func (r *remote) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	r.closeIfUnusedLocked()
}

var errRetired = errors.New("its gateway does not announce it any more")

// forward passes a call on.
func (r *remote) forward(ctx context.Context, request *forward.Request, dst []byte) (forward.Reply, error) {
	if err := r.checkSize(request); err != nil {
		return forward.Reply{Payload: dst}, err
	}
	if !r.begin() {
		return forward.Reply{Payload: dst}, notExecuted(status.Unavailable, "%s: %w", r.name, errRetired)
	}
	defer r.end()
	by := r.small
	if len(request.Payload) >= largeBytes {
		by = r.large
	}
	reply, err := by.Forward(ctx, request, dst)
	if err != nil {
		err = r.inWords(err)
	}
	return reply, err
}

// checkSize refuses what no message of the engine holds, if it is not to be sent in pieces.
func (r *remote) checkSize(request *forward.Request) error {
	most := r.gateway.link.MaxPayload()
	if r.gateway.labels().large == Pieces || most <= 0 {
		return nil
	}
	if bytes := int64(len(request.Payload) + len(request.Extensions) + messageOverhead); bytes > most {
		return notExecuted(status.ResourceExhausted, "the arguments of %s take %d bytes, and a message of the engine %d (its option max_payload); gateways refuse larger ones here (option Large)", request.Function, len(request.Payload), most)
	}
	return nil
}

// messageOverhead is what a message has besides arguments.
const messageOverhead = 1 << 10

// inWords says where the server is, in place of the address that its clients have.
func (r *remote) inWords(err error) error {
	failure := *status.FromError(err)
	if !strings.Contains(failure.Message, r.label) {
		return err
	}
	failure.Message = strings.ReplaceAll(failure.Message, r.label, r.where())
	return &failure
}

func (r *remote) where() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.places) == 0 {
		return fmt.Sprintf("server %s", r.name)
	}
	return fmt.Sprintf("server %s at %s", r.name, r.places[0].host)
}

func notExecuted(code status.Code, format string, args ...any) *status.Error {
	failure := status.Errorf(code, format, args...)
	failure.Outcome = status.OutcomeNotExecuted
	return failure
}

// dial connects to the server by one of its gateways. After a connection was lost the server is
// looked for everywhere, because the library asks it what became of calls. The error says whether it
// may look again: ECONNREFUSED says that it must not.
func (r *remote) dial(ctx context.Context, _ string) (net.Conn, error) {
	r.mu.Lock()
	lostMs, places := r.lostMs, slices.Clone(r.places)
	r.mu.Unlock()
	limit, asking := r.dialLimit(lostMs)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := error(errRetired)
	for _, at := range places {
		var conn net.Conn
		if conn, err = r.gateway.hub.Dial(ctx, at.hub, at.server); err == nil {
			return conn, nil
		}
		if errors.Is(err, syscall.EHOSTUNREACH) {
			r.gateway.catalogue.gone(at.hub)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", limit)
	}
	if why := r.gateway.link.why(); why != nil {
		err = fmt.Errorf("not connected to the engine: %w", why)
	}
	if asking && r.gateway.clock.Ms() < lostMs+uint64(askWithin.Milliseconds()) {
		return nil, &goneError{err, syscall.EHOSTUNREACH}
	}
	return nil, &goneError{err, syscall.ECONNREFUSED}
}

// dialLimit returns how long connecting may take. asking is set if a connection was lost just now.
func (r *remote) dialLimit(lostMs uint64) (limit time.Duration, asking bool) {
	since := time.Duration(r.gateway.clock.Ms()-lostMs) * time.Millisecond
	if lostMs == 0 || since > askOver {
		return remoteConnect, false
	}
	return max(askWithin-since, askLeast), true
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
