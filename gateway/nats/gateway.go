package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/gateway/nats/internal/bus"
	"github.com/nearcall/nearcall/internal/monotonic"
)

// A Gateway connects the functions of this machine with those of others. Its methods may be called
// by any number of goroutines.
type Gateway struct {
	config   Config
	log      *slog.Logger
	clock    monotonic.Clock
	subjects subjects

	// These are set by Run before anything else is begun, and do not change.
	startedMs uint64
	life      context.Context // ends when the calls have ended
	link      *link
	hub       *bus.Hub
	announcer *announcer
	catalogue *catalogue
	remotes   *remotes
	importing *importing
	peers     *peers
	plain     plainCallers

	// ready is set, and started closed, once all of these are there.
	ready    atomic.Bool
	started  chan struct{}
	draining atomic.Bool
	// connectedMs is when the engine was connected to last, or 0.
	connectedMs atomic.Uint64
	// set are the parts of the Config that Reload changes.
	set atomic.Pointer[labels]

	mu      sync.Mutex
	state   runState
	exports []*exported
	// former are those that Reload has taken out.
	former []*exported
	// reloading is held by Reload.
	reloading sync.Mutex
}

// labels are the parts of a Config that can be changed and that calls look at.
type labels struct {
	zone   string
	large  Large
	direct Direct
}

type runState int

const (
	isNew runState = iota
	isRunning
	hasRun
)

// ErrRunning is what Run returns for a gateway that runs, or has run.
var ErrRunning = errors.New("gateway: a gateway runs once")

// New checks a Config and returns a gateway that does nothing yet.
func New(config Config) (*Gateway, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	g := &Gateway{config: config, log: config.Logger, clock: monotonic.New(), subjects: subjects{config.Prefix}, started: make(chan struct{})}
	g.set.Store(&labels{config.Zone, config.Large, config.Direct})
	g.announcer, g.catalogue, g.importing = newAnnouncer(g), newCatalogue(g), newImporting(g)
	g.peers = newPeers(g)
	g.remotes = &remotes{gateway: g, all: map[instanceNumber]*remote{}}
	return g, nil
}

// Run does what the Config says until ctx ends. Then it announces that it stops, waits for the
// calls that are under way, and returns. An engine that cannot be reached is no error: functions of
// this machine can be called meanwhile, and others once it is there.
func (g *Gateway) Run(ctx context.Context) error {
	if !g.enter(isNew, isRunning) {
		return ErrRunning
	}
	defer g.enter(isRunning, hasRun)
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := g.start(life); err != nil {
		return err
	}
	<-ctx.Done()
	g.drain(stop)
	return nil
}

// Started returns a channel that is closed when a gateway that runs listens, if it has an address to
// listen at, and looks for its engine, for other gateways and for the servers that it exports. None of
// them need be there.
func (g *Gateway) Started() <-chan struct{} { return g.started }

func (g *Gateway) enter(from, to runState) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != from {
		return false
	}
	g.state = to
	return true
}

// start begins everything, or nothing.
func (g *Gateway) start(life context.Context) (err error) {
	g.startedMs, g.life = g.clock.Ms(), life
	if g.link, err = connect(&g.config, g.log, g.came); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			g.end()
		}
	}()
	if g.hub, err = bus.Attach(g.link.Conn, bus.Config{Prefix: g.config.Prefix, Name: g.config.Name}); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if err = g.catalogue.subscribe(g.link.Conn); err != nil {
		return fmt.Errorf("gateway: engine: %w", err)
	}
	if err = g.peers.subscribe(g.link.Conn); err != nil {
		return fmt.Errorf("gateway: engine: %w", err)
	}
	made, err := g.makeExports(g.config.Exports)
	if err != nil {
		return err
	}
	if err = g.importing.start(life); err != nil {
		for _, e := range made {
			_ = e.client.Close()
		}
		return err
	}
	g.begin(made)
	go g.announcer.run(life)
	go g.catalogue.run(life)
	go g.peers.run(life)
	g.ready.Store(true)
	close(g.started)
	// The engine may have been there before there was anything to announce.
	if g.link.IsConnected() {
		g.came()
	}
	return nil
}

// makeExports makes servers that are exported once begin is called.
func (g *Gateway) makeExports(exports []Export) (made []*exported, err error) {
	for _, config := range exports {
		e, err := g.newExported(config)
		if err != nil {
			for _, e := range made {
				_ = e.client.Close()
			}
			return nil, err
		}
		made = append(made, e)
	}
	return made, nil
}

// begin begins to export servers.
func (g *Gateway) begin(made []*exported) {
	g.mu.Lock()
	g.exports = append(g.exports, made...)
	g.mu.Unlock()
	for _, e := range made {
		e.start(g.life)
	}
}

// exported returns the servers that are exported.
func (g *Gateway) exported() []*exported {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.exports)
}

// labels returns what Reload may change.
func (g *Gateway) labels() *labels { return g.set.Load() }

// came is called when there is a connection to the engine. Others are told what this gateway
// serves, and are asked for the same.
func (g *Gateway) came() {
	g.connectedMs.Store(g.clock.Ms())
	g.announcer.eager.Store(true)
	if !g.ready.Load() {
		return // start calls it again
	}
	if err := g.link.Publish(g.subjects.who(), []byte(g.hub.Instance())); err != nil {
		g.log.Debug("other gateways were not asked", "error", err)
	}
	g.changed()
}

// changed is called when what this gateway serves, or what it knows, has changed.
func (g *Gateway) changed() {
	g.announcer.changed()
	signal(g.catalogue.changed)
}

// isSettling reports whether the engine was found just now, so that not all others may be known.
func (g *Gateway) isSettling() bool {
	return g.clock.Ms()-g.connectedMs.Load() < uint64(settling.Milliseconds())
}

// learn takes what the catalogue has found out.
func (g *Gateway) learn(offers map[string]*offer) { g.importing.learn(offers) }

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
