package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/endpoints"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// endpointLimits are for how long endpoints are left alone.
var endpointLimits = endpoints.Limits{
	RestFirst: nanoseconds(wire.EndpointRestFirstMs), Rest: nanoseconds(wire.EndpointRestMs),
	Full: nanoseconds(wire.EndpointFullMs), Return: nanoseconds(wire.EndpointReturnMs), Load: nanoseconds(wire.LoadMs),
}

func nanoseconds(ms uint64) uint64 { return ms * uint64(time.Millisecond) }

// A route chooses the endpoint of each call, if the address has several. Package endpoints
// has the rules; the route knows the time, the connections and what became of calls.
type route struct {
	client *core
	// optional is set if the endpoints are those to which servers direct calls, which can be made
	// without them as well.
	optional bool

	// direct is the connection to the nearest endpoint if no other is as near, so that calls
	// use it without choosing. It is nil if that endpoint is left alone or not connected.
	direct atomic.Pointer[connection]

	// mu may be taken by a goroutine that holds core.mu, but not the other way round.
	mu  sync.Mutex
	set *endpoints.Set
	// at has the endpoints by their index in set.
	at [endpoints.Max]*endpoint
	// last is the endpoint that a call was last sent to, or was to be sent to.
	last *endpoint
	// retired are the endpoints of host names that no longer have them. Their connections are
	// closed when no call waits for them.
	retired []*endpoint
}

// newRoute makes a route of the endpoints of an address.
func newRoute(c *core, list address.List) *route {
	t := &route{client: c, set: endpoints.New(endpointLimits)}
	for distance, group := range list.Groups {
		for _, at := range group {
			// Each distance has two groups: see hostName.
			e := t.addLocked(at, 2*distance)
			if c.resolves(at) {
				e.name = newHostName(t, e)
			}
		}
	}
	return t
}

// addLocked adds an endpoint. It returns nil if there is no room. Preconditions: t.mu is held,
// or nobody else knows the route.
func (t *route) addLocked(at address.Address, group int) *endpoint {
	e := &endpoint{}
	e.init(t.client, at)
	e.route = t
	if e.index = t.set.Add(group, !e.local()); e.index < 0 {
		return nil
	}
	t.at[e.index] = e
	return e
}

// A search is what one attempt of a call has found so far, going from endpoint to endpoint.
type search struct {
	// later is set if it is not the first attempt.
	later bool
	// tried have failed. full had no place for the call, and absent are known not to have
	// its function.
	tried, full, absent endpoints.Bits
	// waits is set once the call waits for a place, and asks once it asks for its function
	// although that is not there: no other endpoint is left.
	waits, asks bool
	failures    []endpointFailure
}

// An endpointFailure is why a call has not come to its end at an endpoint.
type endpointFailure struct {
	at      *endpoint
	failure *status.Error
}

// attempt sends the call once, to the first endpoint that takes it.
func (t *route) attempt(ctx context.Context, r *call, count int) *status.Error {
	s := search{later: count > 1}
	if direct := t.direct.Load(); direct != nil && !t.lacks(direct, r.name) {
		r.at = direct.endpoint
		if failure, ended := t.use(ctx, r, direct, &s); ended {
			return failure
		}
	}
	for {
		e := t.choose(&s)
		if e == nil {
			return t.failureOf(&s)
		}
		r.at = e
		failure, ended := t.try(ctx, r, e, &s)
		t.mu.Lock()
		t.set.Ended(e.index)
		t.mu.Unlock()
		if ended {
			return failure
		}
	}
}

// reach returns a connection to the nearest endpoint that can be reached.
func (t *route) reach(ctx context.Context, r *call) (*connection, *status.Error) {
	s := search{}
	for {
		e := t.choose(&s)
		if e == nil {
			return nil, t.failureOf(&s)
		}
		connection, failure, ended := t.connect(ctx, r, e, &s)
		t.mu.Lock()
		t.set.Ended(e.index)
		t.mu.Unlock()
		if ended || connection != nil {
			return connection, failure
		}
	}
}

// choose returns the next endpoint for a call, which then counts as one of its calls, or nil if
// none is left.
func (t *route) choose(s *search) *endpoint {
	t.mu.Lock()
	nowNs := t.client.clock.Ns()
	index, rests, found := t.set.Pick(nowNs, chance{}, s.tried|s.full|s.absent)
	// In its first attempt a call tries everything. Later ones try one endpoint that rests, and
	// none if there is one that only has no place yet.
	if rests && (s.full != 0 || s.later && s.tried != 0) {
		found = false
	}
	if !found {
		index, found = s.lastResort(t.set)
	}
	if !found {
		t.mu.Unlock()
		return nil
	}
	t.set.Began(index)
	e := t.at[index]
	t.last = e
	t.noteConnectedLocked(e)
	probed := t.dueLocked(nowNs, index)
	e.name.refreshLocked(nowNs, wire.LookupMs)
	t.promoteLocked(e)
	t.mu.Unlock()
	if probed != nil {
		probed.begin()
	}
	return e
}

// lastResort returns the endpoint for a call that has found none that takes it at once. An endpoint that
// is believed not to have the function may have it by now, so one of them is asked.
func (s *search) lastResort(set *endpoints.Set) (index int, found bool) {
	if index, found = set.Nearest(s.full); found {
		s.full, s.waits = 0, true
		return index, true
	}
	if s.asks {
		return 0, false
	}
	s.asks = true
	return set.Nearest(s.absent)
}

// dueLocked returns an endpoint that is to be tried beside calls, because it may be back, or
// nil. It is no farther than the one that a call uses. Preconditions: t.mu is held.
func (t *route) dueLocked(nowNs uint64, used int) *endpoint {
	index, due := t.set.Probe(nowNs, t.set.Group(used))
	if !due || index == used {
		return nil
	}
	return t.at[index]
}

// noteConnectedLocked ends the rest of an endpoint to which there is a connection: it may have
// been made before a failure was noted. Preconditions: t.mu is held.
func (t *route) noteConnectedLocked(e *endpoint) {
	if t.at[e.index] == e && e.current.Load() != nil {
		t.set.Succeeded(e.index)
	}
}

// begin begins to connect to an endpoint, for later calls, unless that is under way.
func (e *endpoint) begin() {
	if e.isUnresolved() {
		_, _ = e.name.look()
		return
	}
	attempt, first, _ := e.join(e.client.config.endpointLimit())
	switch {
	case first:
		go e.openBeside(attempt)
	case attempt == nil:
		e.route.mu.Lock()
		defer e.route.mu.Unlock()
		e.route.noteConnectedLocked(e)
	}
}

// promoteLocked lets further calls use the connection of an endpoint without choosing, if that
// makes no difference. The connection may end meanwhile; detach then finds it either here or
// there. Preconditions: t.mu is held.
func (t *route) promoteLocked(e *endpoint) {
	current := e.current.Load()
	if current == nil || e.name != nil || t.optional || !t.set.Alone(e.index) {
		return
	}
	if state, rests := t.set.Look(e.index, t.client.clock.Ns()); state != endpoints.Ready || rests > 0 {
		return
	}
	t.direct.Store(current)
	if e.current.Load() != current {
		t.direct.CompareAndSwap(current, nil)
	}
}

// try connects to an endpoint if necessary, and makes the call there. Ended is false if the
// call is to go to another one.
func (t *route) try(ctx context.Context, r *call, e *endpoint, s *search) (failure *status.Error, ended bool) {
	connection, failure, ended := t.connect(ctx, r, e, s)
	if connection == nil {
		return failure, ended
	}
	if !s.asks && t.lacks(connection, r.name) {
		s.absent = s.absent.With(e.index)
		return nil, false
	}
	return t.use(ctx, r, connection, s)
}

// lacks reports whether the server is known not to have a function of that name. The clock is
// read only if it matters.
func (t *route) lacks(c *connection, name string) bool {
	untilNs := c.functions.absentUntilNs(name)
	return untilNs != 0 && t.client.clock.Ns() < untilNs
}

// use makes the call on a connection. Ended is false if the call is to go to another endpoint,
// or to another connection because this one was left.
func (t *route) use(ctx context.Context, r *call, c *connection, s *search) (failure *status.Error, ended bool) {
	r.spills = !s.waits
	failure, usable := c.try(ctx, r)
	if !usable {
		return nil, false
	}
	return failure, failure == nil || !t.movesOn(r, c, failure, s)
}

// movesOn reports whether a call that has failed goes to another endpoint at once. It certainly
// was not executed then, and the reason lies with this endpoint.
func (t *route) movesOn(r *call, c *connection, failure *status.Error, s *search) bool {
	e := c.endpoint
	switch {
	case failure.Outcome != status.OutcomeNotExecuted:
		return false
	case errors.Is(failure, errNoPlace):
		s.full = s.full.With(e.index)
		return true
	case failure.Code == status.Unavailable:
	case failure.Code == status.Unimplemented:
		if r.function == nil && r.name != "" {
			c.functions.noteAbsent(r.name, t.client.clock.Ns())
		}
	case isForWantOfRoom(failure):
		t.full(e)
	default:
		return false
	}
	r.metadata = nil
	s.note(e, failure)
	return true
}

// isForWantOfRoom reports whether a server has refused a call because it has too many.
func isForWantOfRoom(failure *status.Error) bool {
	return failure.Code == status.ResourceExhausted &&
		slices.ContainsFunc(failure.Details, func(d status.Detail) bool { return d.Type == limitDetail })
}

// full leaves an endpoint alone for a moment that has no room for calls.
func (t *route) full(e *endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.failures++
	if t.at[e.index] == e {
		t.set.Full(e.index, t.client.clock.Ns())
	}
	if direct := t.direct.Load(); direct != nil && direct.endpoint == e {
		t.direct.CompareAndSwap(direct, nil)
	}
}

// note remembers why the call has not ended at an endpoint.
func (s *search) note(e *endpoint, failure *status.Error) {
	s.tried = s.tried.With(e.index)
	s.failures = append(s.failures, endpointFailure{e, failure})
}

// failureOf returns the error of a call that no endpoint took. It is that of the first endpoint
// that may take the call later. The text has those of the others too, also of those that were
// not tried because they rest.
func (t *route) failureOf(s *search) *status.Error {
	if len(s.failures) == 0 {
		return notExecuted(status.Unavailable, "the address has no endpoint left")
	}
	chosen := 0
	for _, code := range []status.Code{status.Unavailable, status.ResourceExhausted} {
		if i := slices.IndexFunc(s.failures, func(f endpointFailure) bool { return f.failure.Code == code }); i >= 0 {
			chosen = i
			break
		}
	}
	failure := *s.failures[chosen].failure
	for i, other := range s.failures {
		if i != chosen {
			failure.Message += fmt.Sprintf("\n%s: %s", other.at.address, other.failure.Message)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.presentLocked() {
		if !s.tried.Has(other.index) && other.lastFailure != "" {
			failure.Message += fmt.Sprintf("\n%s: %s", other.address, other.lastFailure)
		}
	}
	return &failure
}

// connect returns a connection to an endpoint. If it cannot, and the call is to go to another
// one, it returns nothing and ended is false.
func (t *route) connect(ctx context.Context, r *call, e *endpoint, s *search) (made *connection, failure *status.Error, ended bool) {
	untilNs, limited := t.share(r, e, s)
	if e.isUnresolved() {
		if failure = e.name.resolve(ctx, untilNs); failure == nil {
			return nil, nil, false
		}
	} else if made, failure = e.connect(ctx, untilNs); failure == nil {
		return made, nil, true
	}
	switch {
	case limited && failure.Code == status.DeadlineExceeded && ctx.Err() == nil:
		failure = noAnswer("%s does not answer in the time that a call has for one of several endpoints", e.address)
		t.gaveUp(e, failure)
	case !limited && errors.Is(failure.Cause, errNoAnswer) && t.client.remaining(r.deadlineNs) == 0:
		// The attempt had the time of the call, and has noticed its end first.
		failure = endOfWaiting(ctx, "while connecting").With(status.OutcomeNotExecuted)
	}
	switch failure.Code {
	case status.Cancelled, status.DeadlineExceeded, status.FailedPrecondition, status.PermissionDenied, status.Unauthenticated:
		return nil, failure, true
	}
	s.note(e, failure)
	return nil, nil, false
}

// hasOthers reports whether a call may go to another endpoint than this one, which may have been
// taken out of the route.
func (t *route) hasOthers(e *endpoint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	this := endpoints.Bits(0)
	if t.at[e.index] == e {
		this = this.With(e.index)
	}
	return t.optional || t.set.Others(this)
}

// share returns until when a call waits for a connection to an endpoint. It is limited if that
// is before the call's deadline, because others are left.
func (t *route) share(r *call, e *endpoint, s *search) (untilNs uint64, limited bool) {
	t.mu.Lock()
	others := t.optional || t.set.Others((s.tried | s.absent).With(e.index))
	limit := t.client.config.endpointLimit()
	if e.name.hasOtherFamilyLocked(e) {
		limit = min(limit, otherFamilyDelay)
	}
	t.mu.Unlock()
	if !others {
		return r.deadlineNs, false
	}
	nowNs := t.client.clock.Ns()
	return nowNs + min(uint64(limit), (max(r.deadlineNs, nowNs)-nowNs)/2), true
}

// errNoAnswer is the cause of failures that only the lack of an answer shows.
var errNoAnswer = errors.New("no answer")

func noAnswer(format string, args ...any) *status.Error {
	failure := notExecuted(status.Unavailable, format, args...)
	failure.Cause = errNoAnswer
	return failure
}

// failed leaves an endpoint alone that has not answered, or whose connection was lost.
func (t *route) failed(e *endpoint, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failedLocked(e, why)
}

func (t *route) failedLocked(e *endpoint, why error) {
	e.failures++
	e.lastFailure = textOf(why)
	nowNs := t.client.clock.Ns()
	switch {
	case t.at[e.index] != e:
	case errors.Is(why, errNoAnswer):
		t.set.Silent(e.index, nowNs, chance{})
	default:
		t.set.Failed(e.index, nowNs, chance{})
	}
	e.name.refreshLocked(nowNs, wire.EndpointReturnMs)
}

// gaveUp leaves an endpoint alone, for which a call has waited as long as it may. What many calls
// have waited for has failed once, and if it has ended meanwhile, it has told itself.
func (t *route) gaveUp(e *endpoint, why *status.Error) {
	t.client.mu.Lock()
	defer t.client.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	var noted *bool
	switch {
	case e.opening != nil:
		noted = &e.opening.noted
	case e.name != nil && e.name.standIn == e && e.name.looking != nil:
		noted = &e.name.looking.noted
	default:
		return
	}
	if !*noted {
		*noted = true
		t.failedLocked(e, why)
	}
}

// textOf returns what to say about an endpoint that has failed.
func textOf(why error) string {
	if failure := (*status.Error)(nil); errors.As(why, &failure) {
		return failure.Message
	}
	return why.Error()
}

// opened notes what came of connecting to an endpoint. Preconditions: core.mu is held.
func (t *route) opened(e *endpoint, attempt *opening, made *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failure := attempt.failure
	switch {
	case failure != nil && failure.Code == status.Cancelled: // the client was closed
	case failure != nil && attempt.noted && errors.Is(failure.Cause, errNoAnswer):
	case failure != nil:
		t.failedLocked(e, failure)
	case t.at[e.index] == e:
		e.lastFailure = ""
		t.set.Succeeded(e.index)
		if made.welcome.HasLoad {
			t.set.Load(e.index, made.welcome.Load, t.client.clock.Ns())
		}
		t.promoteLocked(e)
	}
}

// noteLoss leaves the endpoint of a connection alone that was lost while calls waited for it. A
// connection that was left before had been given up already, or its server is stopping.
func (c *connection) noteLoss(why *loss, calls int, left bool) {
	if t := c.endpoint.route; t != nil && calls > 0 && !left && c.endpoint.current.Load() == nil && !errors.Is(why.cause, ErrClosed) {
		t.failed(c.endpoint, lostConnectionTo(why))
	}
}

// noteSilence leaves an endpoint alone from which nothing came for too long.
func (e *endpoint) noteSilence(why *loss) {
	if e.route != nil {
		e.route.failed(e, lostConnectionTo(why))
	}
}

func lostConnectionTo(why *loss) *status.Error {
	return &status.Error{Message: "its connection was lost: " + lossText(why), Cause: why.cause}
}

// present returns the connection that was used last, or nil if that has ended.
func (t *route) present() *connection {
	if direct := t.direct.Load(); direct != nil {
		return direct
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		return nil
	}
	return t.last.current.Load()
}

// anyOpening returns an attempt to connect that is under way, or nil. Preconditions: core.mu is
// held.
func (t *route) anyOpening() *opening {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range append(t.presentLocked(), t.retired...) {
		if e.opening != nil {
			return e.opening
		}
	}
	return nil
}

// endpoints returns the endpoints, the nearest first.
func (t *route) endpoints() []*endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.presentLocked()
}

// presentLocked returns the endpoints, the nearest first. Preconditions: t.mu is held.
func (t *route) presentLocked() (all []*endpoint) {
	for _, e := range t.at {
		if e != nil {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *endpoint) int { return t.set.Group(a.index) - t.set.Group(b.index) })
	return all
}

// chance draws numbers.
type chance struct{}

// IntN implements endpoints.Random.
func (chance) IntN(n int) int { return rand.IntN(n) }
