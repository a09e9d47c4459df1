package client

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/codec"
	"github.com/nearcall/nearcall/internal/monotonic"
	"github.com/nearcall/nearcall/internal/transport"
	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
	"github.com/nearcall/nearcall/internal/transport/tcp"
	"github.com/nearcall/nearcall/internal/transport/unixsocket"
	"github.com/nearcall/nearcall/status"
)

// A Client calls the functions of one server. It may be used by any number of
// goroutines, which share its one connection.
type Client struct {
	config    config
	address   address.Address
	transport transport.Transport
	clock     monotonic.Clock
	log       *slog.Logger

	// current is the connection that new calls use, nil when there is none.
	current atomic.Pointer[connection]

	// life ends with Close, and connecting with it.
	life context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool
	opening *opening
	// living holds every connection whose reader has not ended: current, and
	// those that were left.
	living map[*connection]struct{}
	// functions are those of the schema seen last.
	functions *functionTable

	sleeps sharedmemory.Sleeps

	calls sync.Pool // *call
	plans sync.Map  // reflect.Type to *codec.Plan, of results
}

// New returns a client for an address: "unix:/path", "unix:@name" (see
// WithAbstractAddresses) or "tcp:host:port". It does not connect: the first
// call does. The error is a *status.Error with code INVALID_ARGUMENT.
func New(text string, options ...Option) (*Client, error) {
	config := defaultConfig()
	for _, option := range options {
		option(&config)
	}
	parsed, err := address.Parse(text, config.allowAbstract)
	if err == nil {
		err = config.check()
	}
	if err != nil {
		return nil, notExecuted(status.InvalidArgument, "%w", err)
	}
	c := &Client{config: config, address: parsed, clock: monotonic.New(), log: config.logger,
		living: map[*connection]struct{}{}}
	c.transport = transportOf(parsed)
	c.life, c.stop = context.WithCancel(context.Background())
	c.calls.New = func() any { return newCall() }
	return c, nil
}

func transportOf(a address.Address) transport.Transport {
	if a.Network == "tcp" {
		return tcp.Transport{}
	}
	return unixsocket.Transport{}
}

// Address returns the address the client was made for.
func (c *Client) Address() string { return c.address.String() }

// Transport returns how the present connection carries calls: "shared memory",
// "unix socket" or "tcp"; "" when there is no connection.
func (c *Client) Transport() string {
	current := c.current.Load()
	switch {
	case current == nil:
		return ""
	case !current.local:
		return "tcp"
	}
	current.mu.Lock()
	defer current.mu.Unlock()
	if current.memory == nil {
		return "unix socket"
	}
	return "shared memory"
}

// Waiting tells how calls have waited for replies while they had shared memory: where they
// are hot, awake, and hardly ever asleep.
type Waiting struct {
	// Asleep is for how long they slept, all together.
	Asleep time.Duration
	// Sleeps is how often, by cause; docs/guides/shared-memory.md explains them.
	Sleeps map[string]uint64
}

// Waiting returns what was counted since the client was made.
func (c *Client) Waiting() Waiting {
	return Waiting{Asleep: c.sleeps.Asleep(), Sleeps: c.sleeps.ByCause()}
}

// Close closes the connection and waits until that is done. Calls in flight
// fail with CANCELLED and later ones with FAILED_PRECONDITION; both match
// ErrClosed. Closing twice is allowed. The error is always nil; it makes a
// Client an io.Closer.
func (c *Client) Close() error {
	c.stop()
	for _, connection := range c.lastConnections() {
		connection.close(&loss{cause: ErrClosed})
		<-connection.ended
	}
	return nil
}

// lastConnections marks the client closed and returns the connections it has,
// with the one that was just being opened.
func (c *Client) lastConnections() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if opening := c.opening; opening != nil {
		c.mu.Unlock()
		<-opening.done
		c.mu.Lock()
	}
	return slices.Collect(maps.Keys(c.living))
}

// detach makes the next call open another connection.
func (c *Client) detach(gone *connection) { c.current.CompareAndSwap(gone, nil) }

// forget drops a connection whose reader has ended.
func (c *Client) forget(gone *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.living, gone)
}

// planFor returns the plan that decodes results of a type.
func (c *Client) planFor(t reflect.Type) (*codec.Plan, error) {
	if known, ok := c.plans.Load(t); ok {
		return known.(*codec.Plan), nil
	}
	plan, err := codec.NewPlan(t, codec.IgnoreUnknownFields)
	if err != nil {
		return nil, err
	}
	c.plans.Store(t, plan)
	return plan, nil
}
