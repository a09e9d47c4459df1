package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/nearcall/nearcall/internal/endpoints"
	"github.com/nearcall/nearcall/internal/wire"
)

// A policy says which host a call goes to.
type policy uint8

const (
	ownHost      policy = iota // always the caller's own
	anyHost                    // one of all, drawn
	twoOfAll                   // the one of two drawn that has fewer calls of this caller
	nearestFirst               // as Nearcall does: own host, then zone, then any; within these, two drawn
)

var policies = []policy{ownHost, anyHost, twoOfAll, nearestFirst}

func (p policy) String() string {
	return []string{"own host only", "any host, drawn", "better of two of all", "nearest first"}[p]
}

const (
	microsecond = 1_000
	millisecond = 1_000_000
	second      = 1_000_000_000
)

// What a simulation is made of. A host has one client, which stands for the callers on it.
const (
	hosts, zones = 36, 3
	workers      = 4 // calls that a host runs at a time
	// Calls that a host runs and keeps waiting. It refuses what comes beyond them.
	room    = 16
	service = 1 * millisecond // the mean of a call
	// There and back.
	withinHost, withinZone, between = 20 * microsecond, 200 * microsecond, 1 * millisecond
	silenceAfter                    = wire.TcpSilenceMs * millisecond
	triesMax                        = 3 // of a client that draws hosts
)

// A scenario is what one run simulates.
type scenario struct {
	policy policy
	load   float64 // of all hosts, as a share of what they can do
	length uint64
	warm   uint64 // calls that begin before this are not counted

	fullMs int // how long a host without room is left alone; 0: as long as clients do

	heavy bool    // calls differ much more than by an exponential distribution
	busy  float64 // how many times as many calls as on others begin on host 0; 0: as many
	slow  float64 // how many times as long calls take on host 0; 0: as long
	cut   uint64  // when host 0 is cut off; 0: it is not
}

// A result is what a run has shown.
type result struct {
	times          []uint64 // of calls that succeeded, sorted
	leftHost, left int      // of these, how many left the host, and the zone
	lost           int      // calls that were with the host that was cut off, to the end of the run
	movedAfter     uint64   // how long after the cut the last of these began
	worst          float64  // the greatest share of its time that a host's workers were busy
}

// A call is on its way.
type call struct {
	client, host, index int
	begun               uint64
	tried               endpoints.Bits
	tries               int
	forced              bool // waits whatever room there is
}

// A host runs calls.
type host struct {
	running int
	waiting []*call
	busyNs  uint64
	cut     bool
}

// A client picks hosts for the calls that begin on its host.
type client struct {
	set *endpoints.Set
	// hosts are those of the set, by index.
	hosts []int
	// unanswered are calls that are with a host that is cut off, by index.
	unanswered map[int][]*call
}

// A world is one run.
type world struct {
	scenario
	random  *rand.Rand
	events  events
	now     uint64
	hosts   []host
	clients []client
	result  result
}

func simulate(s scenario, seed uint64) *result {
	w := &world{scenario: s, random: rand.New(rand.NewPCG(seed, 0)), hosts: make([]host, hosts), clients: make([]client, hosts)}
	for i := range w.clients {
		w.clients[i] = newClient(s, i)
		w.events.push(event{at: w.untilNext(i), what: arrives, client: i})
	}
	for w.now < s.length {
		e := w.events.pop()
		w.now = e.at
		w.happen(e)
	}
	for _, client := range w.clients {
		for _, calls := range client.unanswered {
			w.result.lost += len(calls)
		}
	}
	slices.Sort(w.result.times)
	for i := range w.hosts {
		w.result.worst = max(w.result.worst, float64(w.hosts[i].busyNs)/float64(workers*s.length))
	}
	return &w.result
}

func newClient(s scenario, own int) client {
	c := client{unanswered: make(map[int][]*call)}
	c.set = endpoints.New(endpoints.Limits{
		RestFirst: wire.EndpointRestFirstMs * millisecond, Rest: wire.EndpointRestMs * millisecond,
		Full: uint64(cmp.Or(s.fullMs, wire.EndpointFullMs)) * millisecond, Return: wire.EndpointReturnMs * millisecond,
	})
	for i := range hosts {
		group := 0
		switch {
		case s.policy != nearestFirst || i == own:
		case i%zones == own%zones:
			group = 1
		default:
			group = 2
		}
		c.set.Add(group, i != own)
		c.hosts = append(c.hosts, i)
	}
	return c
}

// untilNext draws when the next call begins at a client.
func (w *world) untilNext(client int) uint64 {
	rate := w.load * workers / service
	if client == 0 && w.busy > 0 {
		rate *= w.busy
	}
	return w.now + uint64(w.random.ExpFloat64()/rate)
}

// drawService draws how long a call takes.
func (w *world) drawService(host int) uint64 {
	took := w.random.ExpFloat64()
	if w.heavy {
		// Pareto with a mean of 1, cut off at 200 times that.
		const shape = 1.5
		took = min(200, (shape-1)/shape*math.Pow(w.random.Float64(), -1/shape))
	}
	if host == 0 && w.slow > 0 {
		took *= w.slow
	}
	return uint64(took * service)
}

func halfWay(client, host int) uint64 {
	switch {
	case client == host:
		return withinHost / 2
	case client%zones == host%zones:
		return withinZone / 2
	}
	return between / 2
}

func (w *world) happen(e event) {
	if w.cut > 0 && w.now >= w.cut {
		w.hosts[0].cut = true
	}
	switch c := e.call; e.what {
	case arrives:
		w.events.push(event{at: w.untilNext(e.client), what: arrives, client: e.client})
		// Nobody calls on a host that is cut off, so that only its being called is seen.
		if !w.hosts[e.client].cut {
			w.route(&call{client: e.client, begun: w.now})
		}
	case reaches:
		w.reach(c)
	case returns:
		w.returned(c)
	case replies:
		w.clients[c.client].set.Ended(c.index)
		w.count(c)
	case refused:
		set := w.clients[c.client].set
		set.Ended(c.index)
		set.Full(c.index, w.now)
		c.tried = c.tried.With(c.index)
		w.route(c)
	case silent:
		w.giveUp(e.client, e.index)
	case probed:
		if !w.hosts[w.clients[e.client].hosts[e.index]].cut {
			w.clients[e.client].set.Succeeded(e.index)
		} else {
			w.clients[e.client].set.Silent(e.index, w.now, w.random)
		}
	}
}

// route sends a call to the host that its client picks.
func (w *world) route(c *call) {
	client := &w.clients[c.client]
	c.tries++
	c.index = w.pick(client, c)
	c.host = client.hosts[c.index]
	client.set.Began(c.index)
	w.events.push(event{at: w.now + halfWay(c.client, c.host), what: reaches, call: c})
}

func (w *world) pick(client *client, c *call) int {
	switch w.policy {
	case ownHost:
		c.forced = true
		return c.client
	case anyHost:
		c.forced = c.tries >= triesMax
		return w.drawHost(client)
	}
	if index, found := client.set.Probe(w.now, zones); found {
		w.events.push(event{at: w.now + second, what: probed, client: c.client, index: index})
	}
	index, _, found := client.set.Pick(w.now, w.random, c.tried)
	if !found {
		// None has room: it waits at the nearest one.
		c.forced = true
		index, _ = client.set.Nearest(c.tried)
	}
	return index
}

// drawHost draws one of all hosts, except those that are known to be silent.
func (w *world) drawHost(client *client) int {
	for {
		index := w.random.IntN(hosts)
		if state, _ := client.set.Look(index, w.now); state != endpoints.Silent {
			return index
		}
	}
}

// reach lets a call run, wait, or go back.
func (w *world) reach(c *call) {
	h := &w.hosts[c.host]
	switch {
	case h.cut:
		w.lose(c)
	case h.running < workers:
		w.run(c)
	case c.forced || h.running+len(h.waiting) < room:
		h.waiting = append(h.waiting, c)
	default:
		w.events.push(event{at: w.now + halfWay(c.client, c.host), what: refused, call: c})
	}
}

func (w *world) run(c *call) {
	h := &w.hosts[c.host]
	took := w.drawService(c.host)
	h.running++
	h.busyNs += min(took, w.length-min(w.now, w.length))
	w.events.push(event{at: w.now + took, what: returns, call: c})
}

func (w *world) returned(c *call) {
	h := &w.hosts[c.host]
	h.running--
	if h.cut {
		w.lose(c)
		for _, waiting := range h.waiting {
			w.lose(waiting)
		}
		h.waiting = nil
		return
	}
	w.events.push(event{at: w.now + halfWay(c.client, c.host), what: replies, call: c})
	if len(h.waiting) > 0 {
		next := h.waiting[0]
		h.waiting = h.waiting[1:]
		w.run(next)
	}
}

// lose keeps a call that gets no answer, until its client gives the host up.
func (w *world) lose(c *call) {
	client := &w.clients[c.client]
	if len(client.unanswered[c.index]) == 0 {
		w.events.push(event{at: max(w.now, c.begun) + silenceAfter, what: silent, client: c.client, index: c.index})
	}
	client.unanswered[c.index] = append(client.unanswered[c.index], c)
}

func (w *world) giveUp(number, index int) {
	client := &w.clients[number]
	for _, c := range client.unanswered[index] {
		client.set.Ended(index)
		w.result.lost++
		if c.begun > w.cut {
			w.result.movedAfter = max(w.result.movedAfter, c.begun-w.cut)
		}
	}
	delete(client.unanswered, index)
	client.set.Silent(index, w.now, w.random)
}

func (w *world) count(c *call) {
	if c.begun < w.warm {
		return
	}
	w.result.times = append(w.result.times, w.now-c.begun)
	if c.host != c.client {
		w.result.leftHost++
	}
	if c.host%zones != c.client%zones {
		w.result.left++
	}
}

func (r *result) quantile(share float64) float64 {
	if len(r.times) == 0 {
		return 0
	}
	return float64(r.times[int(float64(len(r.times)-1)*share)]) / millisecond
}

func (r *result) share(count int) float64 {
	if len(r.times) == 0 {
		return 0
	}
	return 100 * float64(count) / float64(len(r.times))
}
