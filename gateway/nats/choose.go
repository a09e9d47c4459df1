package gateway

import (
	"cmp"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/forward"
	"github.com/nearcall/nearcall/internal/endpoints"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// A distance says how far a server is away. Nearer ones take the calls as long as they can.
type distance int

const (
	onThisGateway distance = iota // a server that this gateway exports itself
	onThisHost
	inThisZone
	anywhere
)

func (d distance) String() string { return [...]string{"local", "host", "zone", "far"}[d] }

const (
	// placesPerDistance is how many servers at the same distance a function is called at. If there
	// are more, each gateway has others.
	placesPerDistance = 16
	// triesResting is how many servers a call tries that are left alone, if all of them are.
	triesResting = 3
	// limitDetail is the detail of errors for want of room.
	limitDetail = "nearcall.limit"
)

var placeLimits = endpoints.Limits{
	RestFirst: wire.EndpointRestFirstMs * uint64(time.Millisecond), Rest: wire.EndpointRestMs * uint64(time.Millisecond),
	Full: wire.EndpointFullMs * uint64(time.Millisecond), Return: wire.EndpointReturnMs * uint64(time.Millisecond),
}

// A target is a server that calls of a function may go to: one that this gateway exports, or a
// remote.
type target struct {
	key      string
	distance distance
	local    *exported
	remote   *remote
	gateway  string
	server   string

	calls, failures atomic.Uint64
}

// A route chooses a server for each call of a function.
type route struct {
	gateway *Gateway
	name    string

	// mu protects what follows.
	mu  sync.Mutex
	set *endpoints.Set
	at  [endpoints.Max]*target
}

func newRoute(g *Gateway, name string) *route {
	return &route{gateway: g, name: name, set: endpoints.New(placeLimits)}
}

// distanceOf returns how far a place is away.
func (g *Gateway) distanceOf(p *place) distance {
	zone := g.labels().zone
	switch {
	case p.host == g.config.Host:
		return onThisHost
	case zone != "" && p.zone == zone:
		return inThisZone
	}
	return anywhere
}

// nearest returns the places to use: at each distance those with the smallest hashes, which differ
// from gateway to gateway and from function to function. Servers that have several gateways count
// once, and these have an order of their own, so that calls do not turn from one to another.
func (r *route) nearest(places []place) (chosen []place) {
	counts := map[distance]int{}
	seen := map[instanceNumber]bool{}
	sorted := slices.Clone(places)
	slices.SortFunc(sorted, func(a, b place) int {
		return cmp.Or(cmp.Compare(r.gateway.distanceOf(&a), r.gateway.distanceOf(&b)), cmp.Compare(r.rank(a.instance), r.rank(b.instance)), cmp.Compare(a.hub, b.hub))
	})
	for _, p := range sorted {
		d := r.gateway.distanceOf(&p)
		if !seen[p.instance] {
			if counts[d] >= placesPerDistance {
				continue
			}
			counts[d]++
		}
		seen[p.instance] = true
		chosen = append(chosen, p)
	}
	return chosen
}

func (r *route) rank(server instanceNumber) uint64 {
	hash := fnv.New64a()
	for _, part := range []string{r.name, r.gateway.hub.Instance(), server.String()} {
		_, _ = hash.Write([]byte(part))
	}
	return hash.Sum64()
}

// lead makes the route lead to these servers.
func (r *route) lead(local []*exported, places []place) {
	wanted := map[string]*target{}
	for _, e := range local {
		wanted["local "+e.config.Name] = &target{key: "local " + e.config.Name, distance: onThisGateway, local: e, gateway: r.gateway.config.Name, server: e.config.Name}
	}
	for _, p := range places {
		if known := r.gateway.remotes.of(p.instance); known != nil {
			key := p.instance.String()
			if wanted[key] != nil {
				continue // by a nearer gateway
			}
			wanted[key] = &target{key: key, distance: r.gateway.distanceOf(&p), remote: known, gateway: p.gateway, server: p.server}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, t := range r.at {
		if t == nil {
			continue
		}
		if w := wanted[t.key]; w != nil && w.distance == t.distance && w.remote == t.remote && w.local == t.local {
			delete(wanted, t.key)
			continue
		}
		r.set.Remove(i)
		r.at[i] = nil
	}
	for _, t := range wanted {
		if i := r.set.Add(int(t.distance), t.remote != nil); i >= 0 {
			r.at[i] = t
		}
	}
}

// A search is what a call has found so far, going from server to server.
type search struct {
	tried    endpoints.Bits
	resting  int
	failures []string
	last     *status.Error
}

// forward makes a call at the first server that takes it. It goes on to the next one only if the
// function certainly was not run. It is a forward.Func.
func (r *route) forward(ctx context.Context, request *forward.Request, dst []byte) (forward.Reply, error) {
	var s search
	for {
		index, t := r.choose(&s)
		if t == nil {
			return forward.Reply{Payload: dst}, s.failure(r)
		}
		t.calls.Add(1)
		reply, err := t.forward(ctx, request, dst)
		if !r.ended(ctx, index, t, err, &s) {
			return reply, err
		}
	}
}

// choose returns the next server for a call, or nil.
func (r *route) choose(s *search) (int, *target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	nowNs := r.gateway.clock.Ns()
	for {
		index, rests, found := r.set.Pick(nowNs, chance{}, s.tried)
		if !found {
			return 0, nil
		}
		t := r.at[index]
		if rests {
			if s.resting++; s.resting > triesResting {
				return 0, nil
			}
		}
		if !rests && t.remote != nil && t.remote.isLost() {
			// Those whose calls were lost still ask what became of them.
			r.noteLocked(index, t, endpoints.Silent)
			continue
		}
		if t.local != nil && t.local.isFull() {
			r.set.Full(index, nowNs)
			s.note(index, t, "it has as many calls as it takes")
			s.last = notExecuted(status.ResourceExhausted, "server %s has as many calls as it takes", t.server)
			continue
		}
		r.set.Began(index)
		if due, found := r.set.Probe(nowNs, r.set.Group(index)); found && due != index {
			go r.probe(due, r.at[due])
		}
		return index, t
	}
}

func (s *search) note(index int, t *target, why string) {
	s.tried = s.tried.With(index)
	s.failures = append(s.failures, "server "+t.server+" of "+t.gateway+": "+why)
}

// ended notes what came of a call, and reports whether it is to go to another server.
func (r *route) ended(ctx context.Context, index int, t *target, err error, s *search) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set.Ended(index)
	if err == nil {
		r.noteLocked(index, t, endpoints.Ready)
		return false
	}
	failure := status.FromError(err)
	again = failure.Outcome == status.OutcomeNotExecuted && ctx.Err() == nil
	switch {
	case failure.Code == status.Unavailable && (again || failure.Outcome == status.OutcomeUnknown):
		r.noteLocked(index, t, endpoints.Failed)
	case again && isForWantOfRoom(failure):
		r.noteLocked(index, t, endpoints.Full)
	case again && failure.Code == status.DeadlineExceeded:
		// The call has more time, so it is the server that has not answered.
		r.noteLocked(index, t, endpoints.Silent)
	case again && (failure.Code == status.Unimplemented || failure.Code == status.Aborted):
		// It serves something else by now, which it will announce.
	default:
		again = false
	}
	if again {
		t.failures.Add(1)
		s.note(index, t, failure.Message)
		s.last = failure
	}
	return again
}

// noteLocked notes what is known of a server, unless it is not used any more. What many calls have
// found out together has happened once. Preconditions: mu is held.
func (r *route) noteLocked(index int, t *target, now endpoints.State) {
	if r.at[index] != t {
		return
	}
	nowNs := r.gateway.clock.Ns()
	former, restsNs := r.set.Look(index, nowNs)
	known := restsNs > 0 && former != endpoints.Full
	switch {
	case now == endpoints.Ready:
		r.set.Succeeded(index)
	case now == endpoints.Full:
		r.set.Full(index, nowNs)
	case known:
	case now == endpoints.Silent:
		r.set.Silent(index, nowNs, chance{})
	default:
		r.set.Failed(index, nowNs, chance{})
	}
}

// isForWantOfRoom reports whether a server has refused a call because it has too many.
func isForWantOfRoom(failure *status.Error) bool {
	return failure.Code == status.ResourceExhausted &&
		slices.ContainsFunc(failure.Details, func(d status.Detail) bool { return d.Type == limitDetail })
}

// failure returns the error of a call that no server has taken.
func (s *search) failure(r *route) error {
	if s.last == nil {
		if why := r.gateway.link.why(); why != nil {
			return notExecuted(status.Unavailable, "no server of function %s is known, and the gateway cannot use its engine: %w", r.name, why)
		}
		return notExecuted(status.Unavailable, "no server of function %s is there at present", r.name)
	}
	failure := *s.last
	if failure.Code == status.DeadlineExceeded {
		// The call has time left, so that is not what its caller is to be told.
		failure.Code = status.Unavailable
	}
	if len(s.failures) == 1 {
		return &failure
	}
	failure.Message = "no server takes the call:\n" + strings.Join(s.failures, "\n")
	return &failure
}

// probe finds out whether a server is back that was left alone.
func (r *route) probe(index int, t *target) {
	if t.remote == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), remoteConnect)
	defer cancel()
	err := t.remote.ping(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.noteLocked(index, t, endpoints.Ready)
	} else {
		r.noteLocked(index, t, endpoints.Failed)
	}
}

// forward passes a call on.
func (t *target) forward(ctx context.Context, request *forward.Request, dst []byte) (forward.Reply, error) {
	if t.local == nil {
		return t.remote.forward(ctx, request, dst)
	}
	t.local.calls.Add(1)
	defer t.local.calls.Add(-1)
	return t.local.client.Forward(ctx, request, dst)
}

// ping asks for a sign of life.
func (r *remote) ping(ctx context.Context) error {
	if !r.begin() {
		return errRetired
	}
	defer r.end()
	_, err := r.small.client.Ping(ctx)
	return err
}

// status returns where calls go.
func (r *route) status() FunctionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := FunctionStatus{Name: r.name, Places: []PlaceStatus{}}
	nowNs := r.gateway.clock.Ns()
	for i, t := range r.at {
		if t == nil {
			continue
		}
		state, _ := r.set.Look(i, nowNs)
		s.Places = append(s.Places, PlaceStatus{Server: t.server, Gateway: t.gateway, Distance: t.distance.String(), Direct: t.directAddress(),
			State: [...]string{"ready", "failed", "silent", "full"}[state], CallsTotal: t.calls.Load(), FailuresTotal: t.failures.Load()})
	}
	slices.SortStableFunc(s.Places, func(a, b PlaceStatus) int { return cmp.Compare(a.Server+a.Gateway, b.Server+b.Gateway) })
	return s
}

// chance draws numbers.
type chance struct{}

// IntN implements endpoints.Random.
func (chance) IntN(n int) int { return rand.IntN(n) }
