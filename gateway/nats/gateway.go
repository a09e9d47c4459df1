package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

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
	nats    *nats.Conn
	hub     *bus.Hub
	exports []*exported

	mu      sync.Mutex
	running bool
}

// ErrRunning is what Run returns for a gateway that runs, or has run.
var ErrRunning = errors.New("gateway: a gateway runs once")

// New checks a Config and returns a gateway that does nothing yet.
func New(config Config) (*Gateway, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return &Gateway{config: config, log: config.Logger, clock: monotonic.New(), subjects: subjects{config.Prefix}}, nil
}

// Run does what the Config says until ctx ends. Then it announces that it stops, waits for the
// calls that are under way, and returns.
func (g *Gateway) Run(ctx context.Context) error {
	if !g.begin() {
		return ErrRunning
	}
	<-ctx.Done()
	return nil
}

func (g *Gateway) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.running
	g.running = true
	return first
}

// Reload makes a gateway that runs do what another Config says. Exports are compared by name, so
// that those which have not changed go on. Other things than Exports, Zone, Large, Direct and Workers cannot be
// changed: the error says which, and nothing has changed then.
func (g *Gateway) Reload(config Config) error {
	return errors.New("gateway: nothing can be changed yet")
}
