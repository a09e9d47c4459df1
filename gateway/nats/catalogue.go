package gateway

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/internal/wire"
)

const (
	// A schema that could not be had is asked for again after schemaPause. schemaLimit bounds
	// how long asking takes, and schemasAtOnce how many are asked for at a time.
	schemaPause   = time.Second
	schemaLimit   = 10 * time.Second
	schemasAtOnce = 8
	// lookEvery is how often members are dropped of which nothing was heard. After a change the
	// catalogue is looked at after lookPause and lookEach for each member.
	lookEvery = 250 * time.Millisecond
	lookPause = 20 * time.Millisecond
	lookEach  = 100 * time.Microsecond
)

// A member is another gateway, as it has announced itself.
type member struct {
	*memberDocument
	heardMs uint64
	// startedMs is when it started, by the clock of this gateway. It stays as it was reckoned first,
	// because announcements take different times.
	startedMs int64
	// keptMs is for how long the announcement counts.
	keptMs uint64
}

// A schema is the document of servers, or what is known of asking for it.
type schema struct {
	document *client.Document
	asking   bool
	againMs  uint64 // when it is asked for again
	neededMs uint64 // when a member had it last
}

// A catalogue knows the other gateways and what their servers serve.
type catalogue struct {
	gateway *Gateway
	// changed asks for a look at what there is.
	changed chan struct{}

	mu      sync.Mutex
	members map[string]*member // by the instance of their hub
	schemas map[string]*schema // by hash
	asking  int
}

func newCatalogue(g *Gateway) *catalogue {
	return &catalogue{gateway: g, changed: make(chan struct{}, 1), members: map[string]*member{}, schemas: map[string]*schema{}}
}

// subscribe begins to listen to other gateways.
func (c *catalogue) subscribe(to *nats.Conn) error {
	g := c.gateway
	for subject, take := range map[string]nats.MsgHandler{
		g.subjects.member(): func(m *nats.Msg) { c.hear(m.Data) },
		g.subjects.who():    func(*nats.Msg) { g.announcer.asked() },
		g.subjects.bye():    func(m *nats.Msg) { c.gone(string(m.Data)) },
	} {
		if _, err := to.Subscribe(subject, take); err != nil {
			return err
		}
	}
	return nil
}

// count returns how many other gateways there are.
func (c *catalogue) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.members)
}

// hear takes an announcement.
func (c *catalogue) hear(text []byte) {
	document, err := parseMember(text)
	if err != nil {
		c.gateway.log.Debug("an announcement that cannot be read", "error", err)
		return
	}
	if document.Instance == c.gateway.hub.Instance() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	former := c.members[document.Instance]
	if former == nil && len(c.members) >= wire.MembersMax {
		return
	}
	made := &member{memberDocument: document, heardMs: c.gateway.clock.Ms(), keptMs: keptFor(document.IntervalMs)}
	made.startedMs = int64(made.heardMs) - document.UptimeMs
	if former != nil {
		made.startedMs = former.startedMs
	}
	c.members[document.Instance] = made
	if former == nil {
		c.gateway.announcer.asked() // it may not know this gateway either
	}
	if former == nil || !sameOffer(former.memberDocument, document) {
		signal(c.changed)
	}
}

// keptFor returns for how many milliseconds an announcement counts: for three and a half intervals,
// which is limit member_silence_ms at the usual pace.
func keptFor(intervalMs int64) uint64 {
	const slowest = wire.AnnounceMs * wire.MembersMax / membersAtPace
	paced := min(max(uint64(intervalMs), wire.AnnounceMs), slowest)
	return paced * wire.MemberSilenceMs / wire.AnnounceMs
}

// sameOffer reports whether two announcements of a gateway offer the same.
func sameOffer(a, b *memberDocument) bool {
	return a.State == b.State && a.Host == b.Host && a.Zone == b.Zone && slices.Equal(a.Servers, b.Servers)
}

// gone drops a gateway: it has said so, or a message to it met nobody.
func (c *catalogue) gone(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[instance] != nil {
		delete(c.members, instance)
		signal(c.changed)
	}
}

// run looks at what has changed, and drops what was not heard of, until ctx ends.
func (c *catalogue) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if c.gateway.link.hasGrown() {
				c.gateway.came()
			}
			if !c.expire() {
				continue
			}
		case <-c.changed:
			// Others may change at the same time, and looking takes longer if there are many.
			sleep(ctx, lookPause+time.Duration(c.count())*lookEach)
		}
		c.ask(ctx)
		c.gateway.learn(c.offers())
	}
}

// expire drops what is out of date, and reports whether there is something to look at.
func (c *catalogue) expire() (due bool) {
	nowMs := c.gateway.clock.Ms()
	c.mu.Lock()
	defer c.mu.Unlock()
	for instance, m := range c.members {
		if nowMs-m.heardMs > m.keptMs {
			delete(c.members, instance)
			due = true
		}
	}
	c.serversLocked(func(_ *member, s *serverDocument) {
		if known := c.schemas[s.Schema]; known != nil {
			known.neededMs = nowMs
		}
	})
	for hash, s := range c.schemas {
		switch {
		case nowMs-s.neededMs > wire.MemberSilenceMs && !s.asking:
			delete(c.schemas, hash)
		case s.document == nil && !s.asking && nowMs >= s.againMs:
			due = true
		}
	}
	return due || c.gateway.importing.hasLeftovers()
}

// servers calls use for each server that takes calls. Preconditions: mu is held.
func (c *catalogue) serversLocked(use func(*member, *serverDocument)) {
	for _, m := range c.members {
		for i := range m.Servers {
			if s := &m.Servers[i]; m.State == serverUp && s.State == serverUp {
				use(m, s)
			}
		}
	}
}

// ask begins to ask for schemas that are not known.
func (c *catalogue) ask(ctx context.Context) {
	if c.gateway.config.Listen == "" {
		return
	}
	nowMs := c.gateway.clock.Ms()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serversLocked(func(m *member, s *serverDocument) {
		known := c.schemas[s.Schema]
		if known == nil {
			known = &schema{neededMs: nowMs}
			c.schemas[s.Schema] = known
		}
		if known.document != nil || known.asking || nowMs < known.againMs || c.asking >= schemasAtOnce {
			return
		}
		known.asking = true
		c.asking++
		go c.fetch(ctx, placeOf(m, s), s.Schema, known)
	})
}

// fetch asks a server for its schema.
func (c *catalogue) fetch(ctx context.Context, at place, hash string, known *schema) {
	ctx, cancel := context.WithTimeout(ctx, schemaLimit)
	defer cancel()
	document, err := c.gateway.remotes.schema(ctx, at)
	nowMs := c.gateway.clock.Ms()
	c.mu.Lock()
	defer c.mu.Unlock()
	known.asking = false
	c.asking--
	switch {
	case err != nil:
		c.gateway.log.Debug("a schema cannot be had", "server", at.server, "gateway", at.gateway, "error", err)
		known.againMs = nowMs + uint64(schemaPause.Milliseconds())
	case document.Hash != hash:
		known.againMs = nowMs + uint64(schemaPause.Milliseconds())
	default:
		known.document = document
	}
	signal(c.changed)
}

// A place is where functions can be called: a server, by way of a gateway.
type place struct {
	instance instanceNumber // of the server
	server   string
	hub      string // the instance of the gateway's hub
	gateway  string
	host     string
	zone     string
	direct   string
	// startedMs is when the gateway started, by the clock of this one. It may be before 0.
	startedMs int64
}

func placeOf(m *member, s *serverDocument) place {
	return place{instance: s.Instance, server: s.Name, hub: m.Instance, gateway: m.Gateway, host: m.Host, zone: m.Zone, direct: s.Direct, startedMs: m.startedMs}
}

// An offer is a function with one description, and where it can be called.
type offer struct {
	function *client.Function
	local    []*exported
	places   []place
	// described are the offers of this name, by the hash of their description: this one, and those
	// that callers get no more.
	described map[string]*offer
}

// offers returns the functions that can be called, by name. Each has one description: that of a server
// of this machine, or that of most servers, or that of the gateway that has started last.
func (c *catalogue) offers() map[string]*offer {
	all := map[string]map[string]*offer{} // by name and by hash of the description
	enter := func(f *client.Function) *offer {
		if all[f.Name] == nil {
			all[f.Name] = map[string]*offer{}
		}
		if all[f.Name][f.Hash] == nil {
			all[f.Name][f.Hash] = &offer{function: f}
		}
		return all[f.Name][f.Hash]
	}
	for _, e := range c.gateway.exported() {
		for _, f := range e.functions() {
			made := enter(f)
			made.local = append(made.local, e)
		}
	}
	c.mu.Lock()
	c.serversLocked(func(m *member, s *serverDocument) {
		known := c.schemas[s.Schema]
		if known == nil || known.document == nil {
			return
		}
		for _, f := range known.document.Functions {
			made := enter(f)
			made.places = append(made.places, placeOf(m, s))
		}
	})
	c.mu.Unlock()
	chosen := make(map[string]*offer, len(all))
	for name, described := range all {
		chosen[name] = slices.MaxFunc(slices.Collect(maps.Values(described)), compareOffers)
		chosen[name].described = described
	}
	return chosen
}

// compareOffers says which of two descriptions of a function callers get: the greater one.
func compareOffers(a, b *offer) int {
	return cmp.Or(cmp.Compare(len(a.local), len(b.local)), cmp.Compare(len(a.places), len(b.places)),
		cmp.Compare(a.youngest(), b.youngest()), cmp.Compare(a.function.Hash, b.function.Hash))
}

// youngest returns when the gateway started that has started last.
func (o *offer) youngest() int64 {
	last := int64(math.MinInt64)
	for _, p := range o.places {
		last = max(last, p.startedMs)
	}
	return last
}

// status returns what is known of other gateways.
func (c *catalogue) status() []MemberStatus {
	nowMs := c.gateway.clock.Ms()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []MemberStatus{}
	for _, m := range c.members {
		made := MemberStatus{Gateway: m.Gateway, Instance: m.Instance, Host: m.Host, Zone: m.Zone, State: string(m.State), HeardMs: int64(nowMs - m.heardMs), Servers: []ServerStatus{}}
		for _, s := range m.Servers {
			made.Servers = append(made.Servers, ServerStatus{s.Name, s.Instance.String(), string(s.State), s.Schema, s.Direct})
		}
		all = append(all, made)
	}
	slices.SortFunc(all, func(a, b MemberStatus) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Instance, b.Instance))
	})
	return all
}
