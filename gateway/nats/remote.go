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

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/status"
)

// largeBytes is from where on arguments are large ones.
const largeBytes = 64 << 10

// A remote is a server behind another gateway, or behind several. It is known by the number in its
// welcome, so that it can be asked about calls after its gateway was replaced.
type remote struct {
	gateway  *Gateway
	instance instanceNumber
	name     string // of the server
	label    string // what its clients call it

	// Through the engine, small arguments and large ones travel by different connections, so that
	// small ones need not wait behind large ones.
	small, large *way

	mu     sync.Mutex
	places []place // by which it can be reached
	direct direct
	calls  int
	// retired is set while it is not announced. It is closed when no call needs it any more.
	retired, closed bool
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
		// A place comes once for each function that can be called there.
		if !slices.Contains(by[p.instance], p) {
			by[p.instance] = append(by[p.instance], p)
		}
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
	return asked.small.client.Schema(ctx)
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
	if made.small, err = made.newWay(made.label, made.connect); err != nil {
		return nil, err
	}
	if made.large, err = made.newWay(made.label, made.connect); err != nil {
		return nil, errors.Join(err, made.small.client.Close())
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
	r.mu.Lock()
	ways := []*way{r.small, r.large, r.direct.way}
	r.mu.Unlock()
	for _, w := range ways {
		if w != nil {
			_ = w.client.Close()
		}
	}
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
	if !r.begin() {
		return forward.Reply{Payload: dst}, notExecuted(status.Unavailable, "%s: %w", r.name, errRetired)
	}
	defer r.end()
	if by := r.directly(); by != nil {
		reply, err := by.client.Forward(ctx, request, dst)
		r.release(by)
		if !r.leaves(ctx, by, err) {
			return reply, err
		}
	}
	if err := r.checkSize(request); err != nil {
		return forward.Reply{Payload: dst}, err
	}
	by := r.small
	if len(request.Payload) >= largeBytes {
		by = r.large
	}
	reply, err := by.client.Forward(ctx, request, dst)
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
	where := r.where()
	failure.Message = strings.NewReplacer("no server at "+r.label, "no connection to "+where, r.label, where).Replace(failure.Message)
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

// errGatewayGone is what callers are told of a hub that is not there.
var errGatewayGone = errors.New("the gateway there is not connected to NATS any more")

// connect connects to the server by one of its gateways.
func (r *remote) connect(ctx context.Context) (conn net.Conn, err error) {
	r.mu.Lock()
	places := slices.Clone(r.places)
	r.mu.Unlock()
	err = errRetired
	for _, at := range places {
		if conn, err = r.gateway.hub.Dial(ctx, at.hub, at.server); err == nil {
			return conn, nil
		}
		if errors.Is(err, syscall.EHOSTUNREACH) {
			r.gateway.catalogue.gone(at.hub)
			err = errGatewayGone
		}
	}
	if why := r.gateway.link.why(); why != nil {
		err = fmt.Errorf("the engine cannot be used: %w", why)
	}
	return nil, err
}
