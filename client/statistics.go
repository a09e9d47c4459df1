package client

import (
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/endpoints"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// Statistics are what a client has counted since it was made. All views of a client share
// them.
type Statistics struct {
	// Connections is the number of open connections: at most one that new calls use, and
	// others whose server is stopping.
	Connections int
	// CallsInFlight is the number of requests that wait for their replies.
	CallsInFlight int
	// ConnectionsTotal counts the connections that were opened, ConnectionsRefusedTotal the
	// attempts that failed, and SharedMemoryTotal the connections that were given shared
	// memory.
	ConnectionsTotal, ConnectionsRefusedTotal, SharedMemoryTotal uint64
	// RequestsTotal counts the requests that were sent. Those for descriptions of functions
	// count too, and each attempt of a call.
	RequestsTotal uint64
	// RetriesTotal counts the attempts after the first ones, and FailuresTotal the calls
	// that have failed in the end.
	RetriesTotal, FailuresTotal uint64
	// SentBytesTotal and ReceivedBytesTotal are the bytes of requests and of their answers,
	// with headers, through the socket and through shared memory.
	SentBytesTotal, ReceivedBytesTotal uint64
	// Waiting says how calls have waited for replies through shared memory.
	Waiting Waiting
	// Endpoints are the endpoints of the address, the nearest first. Each address of a host
	// name that was looked up is one. Those to which servers have directed calls come last.
	Endpoints []EndpointStatistics
}

// EndpointStatistics say what is known of one endpoint of an address.
type EndpointStatistics struct {
	// Address is how an address with only this endpoint would be written.
	Address string
	// State is "in use" if there is a connection that calls may use, and "ready" if there
	// is none and nothing speaks against it. Calls leave an endpoint alone for a while that
	// "rests" because it has failed, is "silent" because nothing came from it for too long, or
	// is "full" because it had no room for a call.
	State string
	// Connections is the number of open connections, and CallsInFlight that of requests that
	// wait there for their replies.
	Connections, CallsInFlight int
	// FailuresTotal counts what made calls leave the endpoint alone.
	FailuresTotal uint64
	// Rests is for how long calls still leave the endpoint alone.
	Rests time.Duration
	// Told is set if the endpoint is not one of the address: a server has directed calls of some
	// functions there, see WithDirect.
	Told bool
}

// Waiting says how calls have waited for their replies while they used shared memory.
// When connections are hot, calls are awake nearly all of that time.
type Waiting struct {
	// Asleep is how long calls have slept in total.
	Asleep time.Duration
	// Sleeps is how often they slept, by cause. The guide docs/guides/shared-memory.md
	// explains the causes.
	Sleeps map[string]uint64
}

// Statistics returns what was counted so far.
func (c *Client) Statistics() Statistics {
	all := Statistics{Waiting: Waiting{Asleep: c.core.sleeps.Asleep(), Sleeps: c.core.sleeps.ByCause()},
		RetriesTotal: c.core.counts.retries.Load(), FailuresTotal: c.core.counts.failures.Load()}
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	counts := &c.core.counts
	all.Connections = len(c.core.living)
	all.ConnectionsTotal, all.ConnectionsRefusedTotal = counts.opened, counts.refused
	all.SharedMemoryTotal = counts.moved
	sum := counts.past
	for connection := range c.core.living {
		connection.mu.Lock()
		all.CallsInFlight += connection.calls.waiting
		all.SharedMemoryTotal += connection.traffic.movedTotal()
		sum.add(&connection.traffic)
		connection.mu.Unlock()
	}
	all.Endpoints = c.core.endpointStatistics()
	all.RequestsTotal, all.SentBytesTotal, all.ReceivedBytesTotal = sum.requests, sum.sentBytes, sum.receivedBytes
	return all
}

// endpointStatistics are those of all endpoints. Preconditions: c.mu is held.
func (c *core) endpointStatistics() []EndpointStatistics {
	var all []EndpointStatistics
	for _, e := range c.endpointsInOrder() {
		counted := e.statistics()
		for connection := range c.living {
			if connection.endpoint == e {
				connection.mu.Lock()
				counted.CallsInFlight += connection.calls.waiting
				connection.mu.Unlock()
				counted.Connections++
			}
		}
		all = append(all, counted)
	}
	return all
}

func (c *core) endpointsInOrder() []*endpoint {
	all := []*endpoint{&c.only}
	if c.route != nil {
		all = c.route.endpoints()
	}
	if c.directions != nil {
		all = append(all, c.directions.told.endpoints()...)
	}
	return all
}

// statistics says what is known of an endpoint, except for its connections.
func (e *endpoint) statistics() EndpointStatistics {
	counted := EndpointStatistics{Address: e.address.String(), State: "ready"}
	if e.current.Load() != nil {
		counted.State = "in use"
	}
	if e.route == nil {
		return counted
	}
	counted.Told = e.route.optional
	e.route.mu.Lock()
	defer e.route.mu.Unlock()
	counted.FailuresTotal = e.failures
	nowNs := e.client.clock.Ns()
	state, restsNs := e.route.set.Look(e.index, nowNs)
	if full := e.fullUntilNs.Load(); restsNs == 0 && nowNs < full {
		state, restsNs = endpoints.Full, full-nowNs
	}
	if counted.Rests = time.Duration(restsNs); restsNs > 0 {
		counted.State = endpointStates[state]
	}
	return counted
}

// endpointStates are the names of states of endpoints that are left alone.
var endpointStates = map[endpoints.State]string{endpoints.Failed: "rests", endpoints.Silent: "silent", endpoints.Full: "full"}

// counts hold what a client counts beside its connections.
type counts struct {
	retries, failures atomic.Uint64

	// Guarded by core.mu. past and moved are of the connections that have ended.
	opened, refused, moved uint64
	past                   traffic
}

// opening counts an attempt to connect. Preconditions: core.mu is held.
func (c *counts) opening(failure *status.Error) {
	if failure != nil {
		c.refused++
		return
	}
	c.opened++
}

// ended keeps what a connection has counted. Preconditions: core.mu is held.
func (c *counts) ended(gone *connection) {
	gone.mu.Lock()
	defer gone.mu.Unlock()
	c.past.add(&gone.traffic)
	c.moved += gone.traffic.movedTotal()
}

// A traffic counts what has travelled over a connection.
type traffic struct {
	requests, sentBytes, receivedBytes uint64
	// moved is set once the connection was given shared memory.
	moved bool
}

func (t *traffic) countRequest(header *wire.Header) {
	t.requests++
	t.sentBytes += wire.HeaderBytes + uint64(header.Length)
}

func (t *traffic) countAnswer(header *wire.Header) {
	t.receivedBytes += wire.HeaderBytes + uint64(header.Length)
}

func (t *traffic) movedTotal() uint64 {
	if t.moved {
		return 1
	}
	return 0
}

func (t *traffic) add(other *traffic) {
	t.requests += other.requests
	t.sentBytes += other.sentBytes
	t.receivedBytes += other.receivedBytes
}
