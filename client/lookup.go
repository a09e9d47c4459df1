package client

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// otherFamilyDelay is how long a call waits for a connection if the host's name has addresses of
// the other family (IPv4, IPv6) too. Package net waits as long.
const otherFamilyDelay = 300 * time.Millisecond

// lookupMax bounds a lookup. Calls wait no longer than for a connection, so it may be long: the
// system asks its name servers one after the other, for some seconds each.
const lookupMax = wire.LookupMs * time.Millisecond

// A hostName is the name of a host in the address. Each of its answers is an endpoint. Until
// there are some, one endpoint stands for them.
//
// Answers of the family that the system prefers are in the nearer of two groups. So an address
// that leads nowhere, because this host has no IPv6 for example, is not one of several equals.
type hostName struct {
	route      *route
	as         address.Address
	host, port string
	group      int

	// Guarded by route.mu. standIn is nil once there are answers, which came at atNs.
	standIn *endpoint
	answers []*endpoint
	atNs    uint64
	looking *lookup
	// warned is set once it was logged that there are too many answers.
	warned bool
}

// A lookup asks for the addresses of a host. All callers that need them wait for it.
type lookup struct {
	done    chan struct{}
	failure *status.Error
	// noted is set once a call has noted that there is no answer. Guarded by route.mu.
	noted bool
}

// resolves reports whether an address has a host name to look up. A dialer does that itself.
func (c *core) resolves(a address.Address) bool {
	if a.Network == "unix" || c.config.dial != nil {
		return false
	}
	host, _, err := net.SplitHostPort(a.Target)
	if err != nil || host == "" {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

func newHostName(t *route, standIn *endpoint) *hostName {
	host, port, _ := net.SplitHostPort(standIn.address.Target)
	return &hostName{route: t, as: standIn.address, host: host, port: port, group: t.set.Group(standIn.index), standIn: standIn}
}

// isUnresolved reports whether the endpoint stands for a name without answers. Once it is false
// it stays so.
func (e *endpoint) isUnresolved() bool {
	if e.name == nil {
		return false
	}
	e.route.mu.Lock()
	defer e.route.mu.Unlock()
	return e.name.standIn == e
}

// resolve waits until the name has answers.
func (n *hostName) resolve(ctx context.Context, untilNs uint64) *status.Error {
	under, failure := n.look()
	if under == nil {
		return failure
	}
	timer := n.route.client.timer(untilNs)
	defer timer.Stop()
	select {
	case <-under.done:
		return under.failure
	case <-ctx.Done():
	case <-timer.C:
	}
	return endOfWaiting(ctx, "while looking up "+n.host).With(status.OutcomeNotExecuted)
}

// look returns the lookup of a name without answers, and begins one if none is under way. It
// returns nil if there are answers, and if the client was closed.
func (n *hostName) look() (*lookup, *status.Error) {
	n.route.mu.Lock()
	defer n.route.mu.Unlock()
	switch {
	case n.standIn == nil:
		return nil, nil
	case n.route.client.life.Err() != nil:
		return nil, notExecuted(status.FailedPrecondition, "%w", ErrClosed)
	}
	n.lookLocked()
	return n.looking, nil
}

func (n *hostName) lookLocked() {
	if n.looking == nil {
		n.looking = &lookup{done: make(chan struct{})}
		go n.lookUp(n.looking)
	}
}

// refreshLocked asks anew if the answers have an age in milliseconds. Calls do not wait for
// that. Preconditions: route.mu is held; the name may be nil.
func (n *hostName) refreshLocked(nowNs, ageMs uint64) {
	if n != nil && n.standIn == nil && nowNs-n.atNs >= nanoseconds(ageMs) && n.route.client.life.Err() == nil {
		n.lookLocked()
	}
}

// hasOtherFamilyLocked reports whether the name has answers of the family that is not preferred,
// and the endpoint is not one of these. Preconditions: route.mu is held; the name may be nil.
func (n *hostName) hasOtherFamilyLocked(e *endpoint) bool {
	if n == nil || n.route.at[e.index] != e || n.route.set.Group(e.index) != n.group {
		return false
	}
	return slices.ContainsFunc(n.answers, func(a *endpoint) bool { return n.route.set.Group(a.index) != n.group })
}

// lookUp makes a lookup.
func (n *hostName) lookUp(under *lookup) {
	client := n.route.client
	ctx, cancel := context.WithTimeout(client.life, lookupMax)
	defer cancel()
	answers, err := net.DefaultResolver.LookupNetIP(ctx, "ip", n.host)
	n.route.mu.Lock()
	n.looking = nil
	if err != nil || len(answers) == 0 {
		under.failure = n.unknownLocked(err)
	} else {
		n.replaceLocked(answers)
	}
	retired := slices.Clone(n.route.retired)
	n.route.mu.Unlock()
	close(under.done)
	n.route.closeRetired(retired)
}

// awaitLookups waits until nothing is looked up any more, which is soon once the client is closed.
func (t *route) awaitLookups() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range slices.Concat(t.presentLocked(), t.retired) {
		for e.name != nil && e.name.looking != nil {
			under := e.name.looking
			t.mu.Unlock()
			<-under.done
			t.mu.Lock()
		}
	}
}

// unknownLocked is for a lookup that has failed. Former answers stay.
func (n *hostName) unknownLocked(err error) *status.Error {
	n.atNs = n.route.client.clock.Ns()
	if n.route.client.life.Err() != nil {
		return notExecuted(status.Cancelled, "%w while the host %s was looked up", ErrClosed, n.host)
	}
	failure := notExecuted(status.Unavailable, "no address of the host %s is known (%v); is its name right, and can this machine look it up?", n.host, err)
	failure.Cause = err
	if n.standIn != nil {
		n.route.failedLocked(n.standIn, failure)
	}
	return failure
}

// replaceLocked makes endpoints of answers. Those that have stayed are kept with their
// connections.
func (n *hostName) replaceLocked(answers []netip.Addr) {
	n.atNs = n.route.client.clock.Ns()
	if n.standIn != nil {
		n.route.removeLocked(n.standIn)
		n.standIn = nil
	}
	targets := n.targets(answers)
	for _, e := range n.answers {
		if !slices.Contains(targets, e.address.Target) {
			n.route.removeLocked(e)
		}
	}
	n.answers = slices.DeleteFunc(n.answers, func(e *endpoint) bool { return !slices.Contains(targets, e.address.Target) })
	if n.as.Silence == 0 && len(targets) > 1 {
		n.as.Silence = wire.TcpSilenceMs * time.Millisecond // as for a list
	}
	for i, target := range targets {
		group := n.group
		if answers[i].Unmap().Is4() != answers[0].Unmap().Is4() {
			group++
		}
		n.addLocked(target, group)
	}
}

// targets returns what to connect to for each answer.
func (n *hostName) targets(answers []netip.Addr) (targets []string) {
	for _, ip := range answers {
		targets = append(targets, net.JoinHostPort(ip.Unmap().String(), n.port))
	}
	return targets
}

// addLocked makes an endpoint of an answer, unless there is one, or too many.
func (n *hostName) addLocked(target string, group int) {
	if slices.ContainsFunc(n.answers, func(e *endpoint) bool { return e.address.Target == target }) {
		return
	}
	if len(n.route.presentLocked()) >= wire.AddressEndpointsMax {
		if !n.warned {
			n.warned = true
			n.route.client.log.Warn("addresses of a host are not used: there are too many", "host", n.host, "first", target, "address_endpoints_max", wire.AddressEndpointsMax)
		}
		return
	}
	if e := n.route.addLocked(n.as.At(target), group); e != nil {
		e.name = n
		n.answers = append(n.answers, e)
	}
}

// removeLocked takes an endpoint out of the route.
func (t *route) removeLocked(e *endpoint) {
	t.set.Remove(e.index)
	t.at[e.index] = nil
	t.retired = append(t.retired, e)
}

// keepInRoute makes sure that the route knows an endpoint that is to be connected to. A call that was
// lost asks there also if the name of the host has no such address any more, and the endpoint had
// been forgotten. Preconditions: core.mu is held.
func (e *endpoint) keepInRoute() {
	t := e.route
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at[e.index] != e && !slices.Contains(t.retired, e) {
		t.retired = append(t.retired, e)
	}
}

// closeRetired closes the connections of retired endpoints that no call needs, and forgets
// the endpoints that have none.
func (t *route) closeRetired(retired []*endpoint) {
	for _, e := range retired {
		if current := e.current.Load(); current != nil {
			current.closeIfIdle()
			continue
		}
		t.client.mu.Lock()
		if e.opening == nil && e.current.Load() == nil {
			t.mu.Lock()
			t.retired = slices.DeleteFunc(t.retired, func(other *endpoint) bool { return other == e })
			t.mu.Unlock()
		}
		t.client.mu.Unlock()
	}
}
