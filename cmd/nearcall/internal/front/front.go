// Package front is a reverse proxy that leaves the data path: it accepts, looks at
// the first bytes without consuming them, and gives the connection itself to the
// process that serves it.
package front

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/backend"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/config"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/front/route"
)

// A Front serves one configuration at a time. It holds nothing of a connection
// that was handed over.
type Front struct {
	log      *slog.Logger
	metrics  *metrics
	backends *backend.Set
	guard    guard
	state    atomic.Pointer[state]

	// ctx ends when connections that are still held are given up.
	ctx       context.Context
	giveUp    context.CancelFunc
	acceptors sync.WaitGroup

	mutex     sync.Mutex
	listeners map[string]*listener
	draining  bool
	// drain is closed when a successor has the listeners.
	drain chan struct{}
}

// A state is what follows from a configuration. Connections keep the one that they
// began with as long as its backend is there.
type state struct {
	config *config.Config
	table  *route.Table[*destination]
}

// A destination is where a route leads.
type destination struct {
	route   string
	backend *backend.Backend
	handed  prometheus.Counter
}

// New makes a front that does nothing yet.
func New(log *slog.Logger) *Front {
	f := &Front{log: log, listeners: map[string]*listener{}, drain: make(chan struct{})}
	f.ctx, f.giveUp = context.WithCancel(context.Background())
	return f
}

// Run serves a configuration until ctx ends or a successor takes over, then lets
// what was accepted find its backend, and returns. Each value of reload is a
// configuration to go on with. predecessor is where a running front is asked for
// its listeners; empty: nobody is asked.
func (f *Front) Run(ctx context.Context, c *config.Config, predecessor string, reload <-chan *config.Config) error {
	f.start(c)
	defer f.backends.Close()
	shared, err := f.open(ctx, c, predecessor)
	if err != nil {
		return err
	}
	aside, err := f.serveAside(c, shared)
	if err != nil {
		f.stopAccepting(true)
		return err
	}
	f.log.Info("serving", "listeners", len(c.Listens), "routes", len(c.Routes), "backends", len(c.Backends))
	succeeded := f.follow(ctx, reload)
	f.finish(ctx, aside, succeeded)
	return nil
}

// open begins to accept. shared: some of the listeners are another process's too.
func (f *Front) open(ctx context.Context, c *config.Config, predecessor string) (shared bool, err error) {
	given, before, err := f.given(ctx, c, predecessor)
	if err != nil {
		return false, err
	}
	shared = len(given) > 0
	added, err := f.openMissing(c, given)
	if err != nil {
		return false, err
	}
	f.adopt(added)
	if err := before.dismiss(ctx); err != nil {
		f.log.Error("the front before", "error", err)
	}
	return shared, nil
}

// GiveUp ends the wait for connections that are still held.
func (f *Front) GiveUp() { f.giveUp() }

// start makes all that does not depend on listeners.
func (f *Front) start(c *config.Config) {
	f.metrics = newMetrics()
	f.backends = backend.NewSet(backend.Options{
		Timeouts: backendTimeouts(c), Log: f.log, TakeBack: f.takeBack,
		Refused: func(backend, socket, reason string) {
			f.metrics.refused.WithLabelValues(backend, socket, reason).Inc()
		},
	})
	f.metrics.watch(f)
	f.use(c)
}

func backendTimeouts(c *config.Config) backend.Timeouts {
	return backend.Timeouts{Health: c.Timeouts.Health, HandBack: c.Timeouts.HandBack}
}

// use makes the state of a configuration.
func (f *Front) use(c *config.Config) {
	f.checkDescriptors(c)
	f.backends.SetTimeouts(backendTimeouts(c))
	backends, retire := f.backends.Apply(c.Backends)
	rules := make([]route.Rule[*destination], 0, len(c.Routes))
	for _, r := range c.Routes {
		to := &destination{route: r.Name, backend: backends[r.Backend], handed: f.metrics.handed.WithLabelValues(r.Name, r.Backend)}
		rules = append(rules, route.Rule[*destination]{TLS: r.ServerName != "", Name: r.Host + r.ServerName, Path: r.Path, Target: to})
	}
	f.guard.limit(c.Limits.HeldMax, c.Limits.HeldPerClientMax)
	f.state.Store(&state{config: c, table: route.New(rules)})
	// A connection that finds its backend gone finds the new state.
	retire()
}

// follow waits for the end, and takes what is reloaded. It tells whether a successor
// has the listeners.
func (f *Front) follow(ctx context.Context, reload <-chan *config.Config) (succeeded bool) {
	for {
		select {
		case <-ctx.Done():
			f.log.Info("draining: told to stop")
			return false
		case <-f.drain:
			f.log.Info("draining: a successor has the listeners")
			return true
		case c := <-reload:
			f.reload(c)
		}
	}
}

// reload goes on with another configuration. Listeners and channels that it does
// not change stay; an address that cannot be opened leaves all as it was.
func (f *Front) reload(c *config.Config) {
	added, err := f.openMissing(c, nil)
	if err != nil {
		f.log.Error("the configuration is not used; the one before stays", "error", err)
		return
	}
	old := f.state.Load().config
	if c.Control != old.Control || c.Metrics != old.Metrics {
		f.log.Warn("control.address and metrics.address stay as they are until the next start")
	}
	f.use(c)
	f.adopt(added)
	if err := f.keepOnly(c); err != nil {
		f.log.Error("a listener keeps its options", "error", err)
	}
	f.log.Info("the configuration is used", "listeners", len(c.Listens), "routes", len(c.Routes), "backends", len(c.Backends))
}

// finish accepts no more, and waits for what was accepted to find its backend.
func (f *Front) finish(ctx context.Context, aside *aside, succeeded bool) {
	timeouts := f.state.Load().config.Timeouts
	f.stopAccepting(!succeeded)
	if succeeded {
		aside.close()
	}
	defer aside.close()
	if succeeded {
		// Connections that were handed from here can come back only to here.
		select {
		case <-ctx.Done():
		case <-time.After(timeouts.HandBack):
		}
	}
	select {
	case <-f.guard.idle():
	case <-f.ctx.Done():
	case <-time.After(timeouts.Drain):
		f.log.Warn("connections are given up", "held", f.guard.count())
	}
	f.giveUp()
	// Nothing can come back from here on, so that idle is idle for good.
	f.backends.Close()
	select {
	case <-f.guard.idle():
	case <-time.After(timeouts.Linger + time.Second):
	}
	f.log.Info("drained")
}
